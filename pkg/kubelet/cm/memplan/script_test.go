// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// TestScripts runs the golden scripts under testdata. Commands:
//
//	machine                       one line a node: "0 memory=32Gi reserved=1Gi hugepages-2Mi=2Gi",
//	    "2 no-cpus memory=..." for one without CPUs; "distances 10 20 80" is the
//	    next node's row
//	hints UID [container=NAME]    hints for the pod, or for the container
//	admit UID scope=pod|container [affinity=NODES|NODES*|any|promised]
//	    the pod's lines: "budget cpu=8 memory=16Gi", then one a container:
//	    "init|sidecar|app NAME [near=NODES] [cpu=N] [memory=SIZE] [hugepages-2Mi=SIZE]";
//	    near are the nodes of its CPUs.
//	    Without affinity the best hint is taken; "*" is a preferred one, and
//	    "promised" any, preferred.
//	forget UID [containers=(...)] [pod]  drops parts of a record, as a foreign file may lack them
//	restart                       every pod is admitted again, twice; nothing may change
//	shrink                        a new machine under the same records
//	remove UID
//	state
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{pods: map[string]podplan.Pod{}, near: map[string]Near{}, scopes: map[string]string{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			return s.out.String()
		})
	})
}

type script struct {
	host   Host
	pods   map[string]podplan.Pod
	near   map[string]Near
	scopes map[string]string
	out    strings.Builder
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

func (s *script) run(t *testing.T, d *datadriven.TestData) {
	uid := ""
	if len(d.CmdArgs) > 0 {
		uid = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "machine", "shrink":
		m, err := NewMachine(machineFromText(t, d.Input))
		if err != nil {
			s.printf("%v\n", err)
			return
		}
		m = m.WithDistances(distancesFromText(t, d.Input, m))
		s.host = NewHost(m, s.host.Records())
		s.printNodes()
	case "hints":
		pod := podFromText(t, uid, d.Input)
		resources := s.host.PodHints(pod)
		if name := argument(t, d, "container"); name != "" {
			resources = s.host.ContainerHints(pod, name)
		}
		s.printf("%s", hintsText(resources))
	case "admit":
		s.pods[uid], s.scopes[uid] = podFromText(t, uid, d.Input), argument(t, d, "scope")
		s.near[uid] = nearFromText(d.Input)
		record, err := s.admit(uid, argument(t, d, "affinity"), true)
		if err != nil {
			delete(s.pods, uid)
			s.printf("refused: %v\n", err)
			return
		}
		s.host = s.host.With(uid, record)
		s.printPod(uid)
		s.printNodes()
	case "forget":
		record := s.host.Records().Pod(uid)
		names := argument(t, d, "containers")
		record = record.keep(func(name string) bool { return !slices.Contains(strings.Split(names, ","), name) })
		if d.HasArg("pod") {
			record.Pod = nil
		}
		s.host = s.host.With(uid, record)
		s.printPod(uid)
	case "restart":
		for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
			for range 2 {
				before := s.host.Records().Pod(uid)
				record, err := s.admit(uid, "", false)
				switch {
				case err != nil:
					s.printf("%s refused: %v\n", uid, err)
				case !record.Equal(before):
					s.host = s.host.With(uid, record)
					s.printf("%s changed:\n", uid)
					s.printPod(uid)
				default:
					s.printf("%s unchanged, hints %s", uid, hintsText(s.host.PodHints(s.pods[uid])))
				}
			}
		}
	case "remove":
		s.host = s.host.With(uid, PodRecord{})
		delete(s.pods, uid)
		s.printNodes()
	case "state":
		for uid := range s.host.Records().All() {
			s.printPod(uid)
		}
		s.printNodes()
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
}

// admit plays the topology manager with a single provider: it takes the best
// hint and allocates in the pod's order.
func (s *script) admit(uid, affinity string, verbose bool) (PodRecord, error) {
	pod := s.pods[uid]
	decide := func(who string, resources []numa.Resource) (numa.Hint, error) {
		if verbose {
			s.printf("%s: %s", who, hintsText(resources))
		}
		switch {
		case affinity == "any":
			return numa.Hint{Any: true}, nil
		case affinity == "promised":
			return numa.Hint{Any: true, Preferred: true}, nil
		case affinity != "":
			nodes, preferred := strings.CutSuffix(affinity, "*")
			return numa.Hint{Nodes: nodesFromText(nodes), Preferred: preferred}, nil
		case len(resources) == 0 || resources[0].NoPreference:
			return numa.Hint{Any: true, Preferred: true}, nil
		}
		hint, ok := s.host.machine.best(resources[0].Hints)
		if !ok {
			report := s.host.Report(pod, "")
			why := []string{"no hint", report.Cause}
			for _, demand := range report.Demands {
				why = append(why, demand.Resource+": "+demand.String())
			}
			return hint, errors.New(strings.Join(slices.DeleteFunc(why, func(s string) bool { return s == "" }), "; "))
		}
		return hint, nil
	}
	if s.scopes[uid] == "pod" {
		hint, err := decide("pod", s.host.PodHints(pod))
		if err != nil {
			return PodRecord{}, err
		}
		return s.host.PlanPod(pod, hint, s.near[uid])
	}
	host := s.host
	for _, c := range pod.Containers {
		if len(pod.ExclusiveMemory(c)) == 0 {
			continue
		}
		hint, err := decide(c.Name, host.ContainerHints(pod, c.Name))
		if err != nil {
			return PodRecord{}, err
		}
		record, err := host.PlanContainer(pod, c.Name, hint)
		if err != nil {
			return PodRecord{}, err
		}
		host = host.With(uid, record)
	}
	return host.Records().Pod(uid), nil
}

func (s *script) printPod(uid string) {
	record := s.host.Records().Pod(uid)
	if record.IsEmpty() {
		s.printf("%s: nothing recorded\n", uid)
		return
	}
	s.printf("%s:\n", uid)
	if record.Whole() {
		s.printf("  (pod)%s\n", blocksText(record.Pod))
	}
	names := slices.Sorted(maps.Keys(record.Containers))
	for _, c := range s.pods[uid].Containers { // the pod's order reads better
		if i := slices.Index(names, c.Name); i >= 0 {
			s.printf("  %s%s\n", c.Name, blocksText(record.Containers[c.Name]))
			names = slices.Delete(names, i, i+1)
		}
	}
	for _, name := range names {
		s.printf("  %s%s\n", name, blocksText(record.Containers[name]))
	}
}

func (s *script) printNodes() {
	for n := range s.host.Nodes() {
		s.printf("node %d: %d blocks, group %s", n.ID, n.Assignments, n.Group)
		for _, r := range n.Resources {
			s.printf(", %s %s free of %s", r.Name, numa.Bytes(r.Free), numa.Bytes(r.Allocatable))
			if r.Missing > 0 {
				s.printf(" (%s missing)", numa.Bytes(r.Missing))
			}
		}
		s.printf("\n")
	}
}

func blocksText(blocks []Block) string {
	if len(blocks) == 0 {
		return " given back"
	}
	text := ""
	for _, b := range blocks {
		text += fmt.Sprintf(" %s %s on {%s}", b.Resource, numa.Bytes(b.Size), b.Nodes)
	}
	return text
}

func hintsText(resources []numa.Resource) string {
	if len(resources) == 0 {
		return "nothing asked for\n"
	}
	var lines []string
	for _, r := range resources {
		text := r.Name
		for _, h := range r.Hints {
			text += " {" + h.Nodes.String() + "}"
			if h.Preferred {
				text += "*"
			}
		}
		switch {
		case r.NoPreference:
			text += " anywhere"
		case len(r.Hints) == 0:
			text += " nowhere"
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "; ") + "\n"
}

func argument(t *testing.T, d *datadriven.TestData, key string) string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return strings.Join(arg.Vals, ",")
		}
	}
	return ""
}

func machineFromText(t *testing.T, text string) []NodeSpec {
	var specs []NodeSpec
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if fields[0] == "distances" {
			continue
		}
		id, err := strconv.Atoi(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		spec := NodeSpec{ID: id, HugePages: map[string]uint64{}, Reserved: map[string]uint64{}}
		if slices.Contains(fields, "no-cpus") {
			spec.NoCPUs, fields = true, fields[1:]
		}
		for name, size := range sizes(t, fields[1:]) {
			switch kept, reserved := strings.CutPrefix(name, "reserved-"); {
			case name == "memory":
				spec.Memory = size
			case name == "reserved":
				spec.Reserved[Ordinary] = size
			case reserved:
				spec.Reserved[kept] = size
			default:
				spec.HugePages[name] = size
			}
		}
		specs = append(specs, spec)
	}
	return specs
}

// distancesFromText reads the machine's distances, if there are any.
func distancesFromText(t *testing.T, text string, m Machine) *numa.Distances {
	var rows [][]uint64
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); fields[0] == "distances" {
			var row []uint64
			for _, field := range fields[1:] {
				n, err := strconv.ParseUint(field, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				row = append(row, n)
			}
			rows = append(rows, row)
		}
	}
	if rows == nil {
		return nil
	}
	d, err := numa.NewDistances(m.Nodes().List(), rows)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// nearFromText reads the nodes of the containers' CPUs.
func nearFromText(text string) Near {
	near := Near{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for _, field := range fields {
			if nodes, ok := strings.CutPrefix(field, "near="); ok {
				near[fields[1]] = nodesFromText(nodes)
			}
		}
	}
	return near
}

// podFromText reads a pod that is managed; see TestScripts for the form.
func podFromText(t *testing.T, uid, text string) podplan.Pod {
	pod := podplan.Pod{UID: uid, Name: "default/" + uid, Managed: true}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if fields[0] == "budget" {
			values := sizes(t, fields[1:])
			pod.Budget = &podplan.Budget{MilliCPU: int64(values["cpu"]) * 1000}
			delete(values, "cpu")
			pod.Budget.Memory = values
			continue
		}
		values := sizes(t, fields[2:])
		c := podplan.Container{Name: fields[1], MilliCPU: int64(values["cpu"]) * 1000}
		c.Guaranteed = values["cpu"] > 0 && values["memory"] > 0
		c.Kind = map[string]podplan.Kind{"init": podplan.StandardInit, "sidecar": podplan.Sidecar, "app": podplan.App}[fields[0]]
		delete(values, "cpu")
		c.Memory = values
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}

func sizes(t *testing.T, fields []string) map[string]uint64 {
	values := map[string]uint64{}
	for _, field := range fields {
		name, text, _ := strings.Cut(field, "=")
		if name == "near" {
			continue
		}
		shift := 0
		if unit, ok := strings.CutSuffix(text, "i"); ok {
			shift = 10 * (1 + strings.IndexByte("KMGT", unit[len(unit)-1]))
			text = unit[:len(unit)-1]
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || bits.Len64(n)+shift > 64 {
			t.Fatalf("bad size %q: %v", field, err)
		}
		values[name] = n << shift
	}
	return values
}

func nodesFromText(text string) numa.Set {
	var set numa.Set
	for id := range strings.SplitSeq(text, ",") {
		n, _ := strconv.Atoi(id)
		set = set.Union(numa.SetOf(n))
	}
	return set
}

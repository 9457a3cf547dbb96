// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// TestScripts runs the golden scripts under testdata. Commands:
//
//	machine [reserved=(CPU,...)|count=N] [option of the static policy]...
//	  one line a core: socket node cache cpu[,cpu...]
//	plan [affinity=NODES] [scope=pod|container]
//	  one line a pod and its containers, as podFromText reads them; the pod is
//	  admitted and stays
//	hints, remove, state
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var node *Node
		var state State
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			switch d.Cmd {
			case "machine":
				var err error
				if node, err = machineFromText(d); err != nil {
					return err.Error() + "\n"
				}
				state = State{}
				fmt.Fprintf(&out, "all %s reserved %s\n", node.Topology().All(), node.Reserved())
			case "hints":
				pod := podFromText(t, d.Input)
				if hint, ok := node.PodHints(state, pod); ok {
					fmt.Fprintf(&out, "pod:%s\n", hintsText(hint))
				}
				for _, c := range pod.Containers {
					if hint, ok := node.ContainerHints(state, pod, c); ok {
						fmt.Fprintf(&out, "%s:%s\n", c.Name, hintsText(hint))
					}
				}
				report := node.Report(state, pod, nil)
				fmt.Fprintf(&out, "%s", report.Cause)
				for _, demand := range report.Demands {
					fmt.Fprint(&out, demand)
				}
				fmt.Fprintln(&out)
			case "plan":
				pod := podFromText(t, d.Input)
				next, err := admit(node, state, pod, affinityArg(t, d), d.HasArg("container"))
				if err != nil {
					return err.Error() + "\n"
				}
				before := state
				state = state.With(pod.UID, next)
				if state.Equals(before) {
					out.WriteString("unchanged\n")
				}
				writeRecord(&out, state, pod.UID)
			case "remove":
				state = state.With(strings.TrimSpace(d.Input), Record{})
			case "forget": // an incomplete record: pod container...
				fields := strings.Fields(d.Input)
				r := state.Record(fields[0])
				kept := Record{Pod: r.Pod, Containers: map[string]Set{}}
				for name, cpus := range r.Containers {
					kept.Containers[name] = cpus
				}
				for _, name := range fields[1:] {
					delete(kept.Containers, name)
				}
				state = state.With(fields[0], kept)
			case "state":
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
			if d.Cmd == "state" || d.Cmd == "remove" || d.Cmd == "forget" {
				for _, uid := range state.PodUIDs() {
					writeRecord(&out, state, uid)
				}
			}
			if d.Cmd != "hints" && d.Cmd != "machine" {
				fmt.Fprintf(&out, "shared %s free %s\n", node.Shared(state), node.Free(state))
			}
			return out.String()
		})
	})
}

// admit plans a pod as the topology manager has the manager do it.
func admit(node *Node, s State, pod podplan.Pod, affinity numa.Hint, byContainer bool) (Record, error) {
	if pod.Budget != nil && !byContainer {
		return node.PlanPod(s, pod, affinity)
	}
	for _, c := range pod.Containers {
		r, err := node.PlanContainer(s, pod, c, affinity)
		if err != nil {
			return Record{}, err
		}
		s = s.With(pod.UID, r)
	}
	return s.Record(pod.UID), nil
}

func affinityArg(t *testing.T, d *datadriven.TestData) numa.Hint {
	if !d.HasArg("affinity") {
		return numa.Hint{Any: true}
	}
	var text string
	d.ScanArgs(t, "affinity", &text)
	var ids []int
	for _, part := range strings.Split(text, "+") {
		id, err := strconv.Atoi(part)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return numa.Hint{Nodes: numa.SetOf(ids...)}
}

func machineFromText(d *datadriven.TestData) (*Node, error) {
	var cpus []CPU
	for core, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		var socket, node, cache int
		var list string
		if _, err := fmt.Sscan(line, &socket, &node, &cache, &list); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		for _, text := range strings.Split(list, ",") {
			id, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			cpus = append(cpus, CPU{ID: id, Core: core, Socket: socket, Node: node, Cache: cache})
		}
	}
	topology, err := NewTopology(cpus)
	if err != nil {
		return nil, err
	}
	count := 1
	var reserved []int
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "reserved":
			for _, v := range arg.Vals {
				id, err := strconv.Atoi(v)
				if err != nil {
					return nil, err
				}
				reserved = append(reserved, id)
			}
			count = len(reserved)
		case "count":
			if count, err = strconv.Atoi(arg.Vals[0]); err != nil {
				return nil, err
			}
		}
	}
	return NewNode(topology, NewSet(reserved...), count, Options{
		FullPCPUsOnly:         d.HasArg("full-pcpus-only"),
		StrictCPUReservation:  d.HasArg("strict-cpu-reservation"),
		DistributeAcrossNUMA:  d.HasArg("distribute-cpus-across-numa"),
		AlignBySocket:         d.HasArg("align-by-socket"),
		DistributeAcrossCores: d.HasArg("distribute-cpus-across-cores"),
		PreferUncoreCache:     d.HasArg("prefer-align-cpus-by-uncorecache"),
	})
}

// podFromText reads "NAME [budget]" and then one container a line: "init|sidecar|app
// NAME CPUS" where CPUS in thousandths ends in m, and "shared" stands for a
// container without resources.
func podFromText(t *testing.T, text string) podplan.Pod {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	head := strings.Fields(lines[0])
	pod := podplan.Pod{UID: head[0], Name: head[0], Managed: true}
	if len(head) > 1 {
		pod.Budget = &podplan.Budget{MilliCPU: milli(t, head[1])}
	}
	kinds := map[string]podplan.Kind{"init": podplan.StandardInit, "sidecar": podplan.Sidecar, "app": podplan.App}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		c := podplan.Container{Name: f[1], Kind: kinds[f[0]]}
		if f[2] != "shared" {
			c.Guaranteed, c.MilliCPU = true, milli(t, f[2])
		}
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}

func milli(t *testing.T, text string) int64 {
	number, scale := text, int64(1000)
	if strings.HasSuffix(text, "m") {
		number, scale = strings.TrimSuffix(text, "m"), 1
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n * scale
}

func hintsText(r numa.Resource) string {
	var b strings.Builder
	for _, h := range r.Hints {
		fmt.Fprintf(&b, " {%s}", h.Nodes)
		if h.Preferred {
			b.WriteString("!")
		}
	}
	if len(r.Hints) == 0 {
		return " none"
	}
	return b.String()
}

func writeRecord(out *strings.Builder, s State, uid string) {
	fmt.Fprintf(out, "%s: %s\n", uid, s.Record(uid))
}

// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// TestScripts runs the files of testdata. Their commands are:
//
//	machine nodes=(0,1) policy=restricted scope=pod [distances=(10,20,20,10)]
//	  [locality] [tie-break=most|least]
//
// starts anew. The distances are for prefer-closest, or for locality.
//
//	provider name=cpu [participant] [settles] [objects=text] [pods]
//	  [holds=yes|no|nothing] [explains=text]
//	  [asked=6 has=(0:4/12,1:12/12/2)] [cause=text]
//	<container or pod> <resource>: <hint> ...
//
// adds a provider with what it answers. A hint is {0,1} or any, with a ! when
// preferred; "don't care" and an empty list stand for themselves. The
// provider's answer for containers without lines is empty. With has it reports
// amounts, node:free/allocatable[/reserved], and answers by them in trials.
//
//	admit [init=(a,b)] [app=(c,d)] [pod-level] [resize] [fail=(cpu.commit,...)]
//
// admits a pod and prints every call in order, the refusal, and the affinities
// that are recorded afterwards. fail names calls that return an error.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var s script
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "machine":
				return s.machine(t, d)
			case "provider":
				return s.provider(t, d)
			case "admit":
				return s.admit(d)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

type script struct {
	scope     Scope
	policy    Policy
	providers []Provider
	book      book

	calls []string
	fail  []string
}

func (s *script) machine(t *testing.T, d *datadriven.TestData) string {
	var scope, policy string
	d.ScanArgs(t, "scope", &scope)
	d.ScanArgs(t, "policy", &policy)
	var ids []int
	for _, val := range vals(d, "nodes") {
		ids = append(ids, number(t, val))
	}
	set, err := numa.NewSet(ids...)
	if err != nil {
		return err.Error()
	}
	var distances *numa.Distances
	if numbers := vals(d, "distances"); numbers != nil {
		distances = parseDistances(t, ids, numbers)
	}
	options := Options{}
	if d.HasArg("locality") {
		options.Locality = distances
	} else {
		options.Closest = distances
	}
	if d.HasArg("tie-break") {
		var name string
		d.ScanArgs(t, "tie-break", &name)
		options.TieBreak = map[string]numa.TieBreak{"most": numa.MostAllocated, "least": numa.LeastAllocated}[name]
	}
	p, err := NewPolicy(Strictness(policy), set, options)
	if err != nil {
		return err.Error()
	}
	*s = script{scope: Scope(scope), policy: p, book: book{}}
	return "ok"
}

func vals(d *datadriven.TestData, key string) []string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return arg.Vals
		}
	}
	return nil
}

// parseDistances takes the rows one after the other, without brackets.
func parseDistances(t *testing.T, ids []int, vals []string) *numa.Distances {
	var rows [][]uint64
	for _, val := range vals {
		if len(rows) == 0 || len(rows[len(rows)-1]) == len(ids) {
			rows = append(rows, nil)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], uint64(number(t, val)))
	}
	distances, err := numa.NewDistances(ids, rows)
	if err != nil {
		t.Fatal(err)
	}
	return distances
}

func number(t *testing.T, text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *script) provider(t *testing.T, d *datadriven.TestData) string {
	p := &fake{script: s, hints: map[string][]numa.Resource{}, pods: d.HasArg("pods")}
	d.ScanArgs(t, "name", &p.name)
	p.explains = strings.Join(vals(d, "explains"), ",")
	for line := range strings.Lines(d.Input) {
		key, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		subject, resource, _ := strings.Cut(key, " ")
		p.hints[subject] = append(p.hints[subject], parseResource(t, resource, list))
	}
	if holds := vals(d, "holds"); holds != nil {
		s.providers = append(s.providers, holder{participant{p}, holds[0]})
	} else if d.HasArg("has") || d.HasArg("cause") {
		s.providers = append(s.providers, reporter{p, parseReport(t, p.name, d)})
	} else if d.HasArg("settles") {
		s.providers = append(s.providers, settler{participant{p}})
	} else if d.HasArg("objects") {
		s.providers = append(s.providers, resizer{participant{p}, strings.Join(vals(d, "objects"), ",")})
	} else if d.HasArg("participant") {
		s.providers = append(s.providers, participant{p})
	} else {
		s.providers = append(s.providers, p)
	}
	return "ok"
}

func parseReport(t *testing.T, resource string, d *datadriven.TestData) numa.Report {
	if cause := vals(d, "cause"); cause != nil {
		return numa.Report{Cause: strings.Join(cause, ",")}
	}
	demand := numa.Demand{Resource: resource}
	if resource == "cpu" {
		demand.Unit = "CPUs"
	}
	if asked := vals(d, "asked"); asked != nil {
		demand.Asked = uint64(number(t, asked[0]))
	}
	for _, text := range vals(d, "has") {
		node, amounts, _ := strings.Cut(text, ":")
		s := numa.Supply{Node: number(t, node)}
		for i, amount := range strings.Split(amounts, "/") {
			*[]*uint64{&s.Free, &s.Allocatable, &s.Reserved}[i] = uint64(number(t, amount))
		}
		demand.Nodes = append(demand.Nodes, s)
	}
	return numa.Report{Demands: []numa.Demand{demand}}
}

func parseResource(t *testing.T, name, list string) numa.Resource {
	r := numa.Resource{Name: name}
	if strings.TrimSpace(list) == "don't care" {
		r.NoPreference = true
		return r
	}
	for _, field := range strings.Fields(list) {
		var h numa.Hint
		field, h.Preferred = strings.CutSuffix(field, "!")
		if h.Any = field == "any"; !h.Any {
			for _, id := range strings.Split(strings.Trim(field, "{}"), ",") {
				h.Nodes = h.Nodes.Union(numa.SetOf(number(t, id)))
			}
		}
		r.Hints = append(r.Hints, h)
	}
	return r
}

func (s *script) admit(d *datadriven.TestData) string {
	var req Request
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "init":
			req.InitContainers = arg.Vals
		case "app":
			req.Containers = arg.Vals
		case "pod-level":
			req.PodLevel = true
		case "resize":
			req.Resize = true
		case "fail":
			s.fail = arg.Vals
		}
	}
	err := Admit(req, s.scope, s.policy, s.providers, s.book)

	var out strings.Builder
	for _, call := range s.calls {
		fmt.Fprintln(&out, call)
	}
	if err == nil {
		fmt.Fprintln(&out, "admitted")
	} else {
		fmt.Fprintf(&out, "refused: %v\n", strings.ReplaceAll(err.Error(), "\n", "\n         "))
	}
	for _, name := range slices.Sorted(maps.Keys(s.book)) {
		fmt.Fprintf(&out, "%s at %s\n", name, text(s.book[name]))
	}
	s.calls, s.fail = nil, nil
	return out.String()
}

func text(h numa.Hint) string {
	return cmp.Or(map[bool]string{true: "any"}[h.Any], "{"+h.Nodes.String()+"}") + map[bool]string{true: "!"}[h.Preferred]
}

// call notes a call and fails it if the script says so.
func (s *script) call(provider, what string) error {
	name := provider + "." + what
	s.calls = append(s.calls, name)
	if slices.Contains(s.fail, name) {
		return errors.New("no more " + provider)
	}
	return nil
}

type fake struct {
	*script
	name     string
	explains string
	pods     bool
	hints    map[string][]numa.Resource // by container, or "pod"
}

func (f *fake) Name() string { return f.name }

func (f *fake) PodHints() []numa.Resource { return f.ContainerHints("pod") }

func (f *fake) ContainerHints(container string) []numa.Resource {
	_ = f.call(f.name, "hints:"+container)
	return f.hints[container]
}

func (f *fake) AllocatePod() error { return f.call(f.name, "allocate-pod") }

// AllocateContainer shows the affinity that the recorder has at that moment.
func (f *fake) AllocateContainer(container string) error {
	what := "allocate:" + container
	err := f.call(f.name, what)
	if h, ok := f.book[container]; ok {
		f.calls[len(f.calls)-1] += " at " + text(h)
	}
	return err
}

func (f *fake) AllocatesPods() bool { return f.pods }

func (f *fake) Explain(container string) string {
	if f.explains != "" {
		_ = f.call(f.name, "explain:"+cmp.Or(container, "pod"))
	}
	return f.explains
}

type participant struct{ *fake }

func (p participant) Begin()          { _ = p.call(p.name, "begin") }
func (p participant) Commit() error   { return p.call(p.name, "commit") }
func (p participant) Rollback() error { return p.call(p.name, "rollback") }

// settler is a participant that is told when all have committed.
type settler struct{ participant }

func (s settler) Settle() { _ = s.call(s.name, "settle") }

// resizer is a participant that objects to every resize, if it has a reason.
type resizer struct {
	participant
	reason string
}

func (r resizer) CheckResize() error {
	_ = r.call(r.name, "check-resize")
	if r.reason == "" {
		return nil
	}
	return errors.New(r.reason)
}

// holder is a participant that needs nothing, or holds it or not.
type holder struct {
	participant
	holds string
}

func (h holder) Holds() (needs, holds bool) { return h.holds != "nothing", h.holds == "yes" }

// reporter knows amounts.
type reporter struct {
	*fake
	report numa.Report
}

func (r reporter) Report(string) (numa.Report, bool) { return r.report, true }

func (r reporter) Usage() (usage []numa.NodeUsage) {
	for _, d := range r.report.Demands {
		for _, s := range d.Nodes {
			usage = append(usage, numa.NodeUsage{Node: s.Node, Resource: d.Resource, Allocatable: s.Allocatable, Free: s.Free})
		}
	}
	return usage
}

// Trial answers by the amounts: sets of nodes that have enough, of which those as
// wide as the narrowest on an idle machine are preferred.
func (r reporter) Trial(change numa.Change, _ func(string) numa.Hint) (Provider, error) {
	if len(r.report.Demands) == 0 {
		return nil, numa.ErrImpossible
	}
	d := r.report.Demands[0]
	if less, asks := change.Ask[d.Resource]; asks {
		d.Asked = less
	}
	d.Nodes = slices.Clone(d.Nodes)
	for i, s := range d.Nodes {
		if change.Nodes.Contains(s.Node) {
			d.Nodes[i].Free += change.Free[d.Resource]
			break
		}
	}
	narrowest := 0
	if nodes, ok := numa.Fit([]numa.Demand{d}); ok {
		narrowest = nodes.Size()
	}
	resource := numa.Resource{Name: d.Resource}
	for bits := 1; bits < 1<<len(d.Nodes); bits++ {
		var nodes numa.Set
		for i, s := range d.Nodes {
			if bits>>i&1 == 1 {
				nodes = nodes.Union(numa.SetOf(s.Node))
			}
		}
		if d.Of(nodes).Free >= d.Asked {
			resource.Hints = append(resource.Hints, numa.Hint{Nodes: nodes, Preferred: nodes.Size() == narrowest})
		}
	}
	return tried{r.name, resource}, nil
}

// tried has the same hints for the pod and its only container.
type tried struct {
	name     string
	resource numa.Resource
}

func (t tried) Name() string                          { return t.name }
func (t tried) PodHints() []numa.Resource             { return []numa.Resource{t.resource} }
func (t tried) ContainerHints(string) []numa.Resource { return []numa.Resource{t.resource} }
func (t tried) AllocatePod() error                    { return t.AllocateContainer("") }
func (t tried) AllocateContainer(string) error {
	if len(t.resource.Hints) == 0 {
		return errors.New("not enough")
	}
	return nil
}

// book is a Recorder.
type book map[string]numa.Hint

func (b book) Affinity(container string) (numa.Hint, bool) { h, ok := b[container]; return h, ok }
func (b book) Record(container string, h numa.Hint)        { b[container] = h }
func (b book) Forget(container string)                     { delete(b, container) }

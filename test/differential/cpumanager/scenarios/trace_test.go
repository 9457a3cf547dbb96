// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"math/bits"
	"os"
	"slices"

	"github.com/podslice/podslice/test/differential/scenario"
)

// trace is a scenario played on our manager: all calls with what was decided
// for them, so that the other side can be given the same.
type trace struct {
	scenario *scenario.Scenario
	calls    []call
	outcomes []outcome
	// files has our state file, and active the pods, after each event.
	files  map[int][]byte
	active map[int][]string
}

// player plays a scenario as the kubelet would.
type player struct {
	trace
	side *side
	// modes has how the affinity of each pod is decided.
	admissions map[string]scenario.Event
}

// playOurs plays a scenario on our manager, in a new directory below dir.
func playOurs(s *scenario.Scenario, dir string, transactions bool) *trace {
	dir, err := os.MkdirTemp(dir, "scenario-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	p := &player{
		trace:      trace{scenario: s, files: map[int][]byte{}, active: map[int][]string{}},
		side:       newOurs(&side{kubelet: newKubelet(s, dir), transactions: transactions}),
		admissions: map[string]scenario.Event{},
	}
	defer func() { p.side.stop() }()
	if o := p.do(call{Op: opStart, Event: -1}); o.Err != "" {
		return &p.trace
	}
	p.saved(-1)
	for i, e := range s.Events {
		p.event(i, e)
		p.saved(i)
	}
	return &p.trace
}

func (p *player) do(c call) outcome {
	o := p.side.play(c)
	p.calls = append(p.calls, c)
	p.outcomes = append(p.outcomes, o)
	return o
}

func (p *player) saved(event int) {
	p.files[event] = p.side.file()
	p.active[event] = slices.Clone(p.side.active)
}

func (p *player) event(i int, e scenario.Event) {
	switch {
	case e.Admit != nil:
		p.admissions[e.Admit.Name] = e
		p.admit(i, e, false)
	case e.Remove != "":
		p.do(call{Op: opDrop, Event: i, Pod: e.Remove})
	case e.Restart:
		running := slices.Clone(p.side.active)
		if o := p.do(call{Op: opStart, Event: i, Active: running}); o.Err != "" {
			return
		}
		for _, pod := range running {
			p.admit(i, p.admissions[pod], true)
		}
	}
}

// admit follows the kubelet's topology manager in each of its scopes.
func (p *player) admit(i int, e scenario.Event, again bool) {
	pod, set := e.Admit, p.scenario.Settings
	base := call{Event: i, Pod: pod.Name, Again: again}
	step := func(o op, container string) outcome {
		c := base
		c.Op, c.Container = o, container
		return p.do(c)
	}
	take := func(o op, container string, where affinityDecision) bool {
		c := base
		c.Op, c.Container, c.Any, c.Near = o, container, where.any, where.nodes
		return p.do(c).Err == ""
	}
	step(opArrive, "")
	refuse := func() { step(opDrop, "") }
	decide := func(hints *[]hint, mask int) affinityDecision {
		d := decideAffinity(p.scenario, hints)
		switch e.Affinity {
		case scenario.Anywhere:
			d = affinityDecision{any: true, admit: true}
		case scenario.FromMasks:
			d = affinityDecision{nodes: e.Masks[mask], admit: true}
		}
		// A pod that has everything on record is not refused.
		d.admit = d.admit || again
		return d
	}
	var podWide affinityDecision
	if set.Policy != "none" && set.Scope == "pod" {
		if podWide = decide(step(opPodHints, "").Hints, 0); !podWide.admit {
			refuse()
			return
		}
		if pod.Budget != nil && set.PodLevel {
			if take(opAllocatePod, "", podWide) {
				step(opAdmitted, "")
			} else {
				refuse()
			}
			return
		}
	}
	for n, c := range pod.Containers {
		where := podWide
		switch {
		case set.Policy == "none":
			where = affinityDecision{any: true}
		case set.Scope == "container":
			if where = decide(step(opHints, c.Name).Hints, n); !where.admit {
				refuse()
				return
			}
		}
		if !take(opAllocate, c.Name, where) {
			refuse()
			return
		}
	}
	step(opAdmitted, "")
}

// affinityDecision is what the topology manager stores for a container.
type affinityDecision struct {
	any   bool
	nodes uint64
	admit bool
}

// decideAffinity is the topology manager with one provider.
func decideAffinity(s *scenario.Scenario, hints *[]hint) affinityDecision {
	if hints == nil {
		return affinityDecision{any: true, admit: true}
	}
	var all uint64
	for _, n := range s.Machine.Nodes {
		all |= 1 << n.ID
	}
	single := s.Settings.Policy == "single-numa-node"
	best := hint{Nodes: all}
	found := false
	for _, h := range *hints {
		if single && (!h.Preferred || bits.OnesCount64(h.Nodes) != 1) {
			continue
		}
		if !found || h.Preferred && !best.Preferred || h.Preferred == best.Preferred && narrower(h.Nodes, best.Nodes) {
			best, found = h, true
		}
	}
	d := affinityDecision{nodes: best.Nodes, admit: best.Preferred || s.Settings.Policy == "best-effort"}
	if single && best.Nodes == all {
		d.any = true
	}
	return d
}

func narrower(a, b uint64) bool {
	if x, y := bits.OnesCount64(a), bits.OnesCount64(b); x != y {
		return x < y
	}
	return a < b
}

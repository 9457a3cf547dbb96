// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// explain finds the faults of the kubelet's own manager that make the
// difference. It answers none for a difference that no faults explain, with the
// reason.
func explain(d *disagreement) (fault, error) {
	s := d.trace.scenario
	relevant := faultsFor(d)
	if err := oursIsRight(d, relevant); err != nil {
		return 0, err
	}
	for _, set := range append([]fault{0}, relevant.sets()...) {
		got, err := predict(s, set, d)
		if err == nil && got.key() == withoutViews(d.theirs).key() {
			if judged := relevant & judgedFaults; set == 0 && judged != 0 {
				return judged, nil
			}
			if set != 0 {
				return set, nil
			}
		}
	}
	return 0, fmt.Errorf("no faults out of %q make the kubelet's own manager decide so", relevant)
}

// judgedFaults are faults in place of which ours has a heuristic that the model
// does not follow: what it comes to is judged instead.
const judgedFaults = partialCache

func withoutViews(o outcome) outcome {
	o.Views = nil
	return o
}

// predict is what a manager with the faults does.
func predict(s *scenario.Scenario, faults fault, d *disagreement) (outcome, error) {
	m, err := newModel(s, faults)
	if d.call.Op == opStart {
		return m.started(err, d), nil
	}
	if err != nil {
		return outcome{}, err
	}
	return m.play(d.before, d.call), nil
}

// started is a start: the reserved CPUs are all that is decided.
func (m *model) started(err error, d *disagreement) outcome {
	if err != nil {
		return outcome{Err: "unable to reserve"}
	}
	if m.strict() && m.reserved.Equals(m.all) && !m.faults.has(emptiesPool) {
		return outcome{Err: poolEmpty}
	}
	o := outcome{State: d.before}
	if d.index == 0 {
		o.State = snapshot{Default: m.all.String()}
		if m.strict() {
			o.State.Default = m.all.Difference(m.reserved).String()
		}
	}
	return o
}

// faultsFor is the faults that can show in the call.
func faultsFor(d *disagreement) fault {
	s := d.trace.scenario
	set := s.Settings
	f := reservedCount
	if !s.Machine.Regular() {
		f |= averages
	}
	if set.Has(scenario.FullPCPUs) {
		f |= halfCores
	}
	if set.Has(scenario.Strict) {
		f |= emptiesPool
	}
	if set.Has(scenario.BySocket) {
		f |= widensToSockets | socketAverage
	}
	if set.Has(scenario.AcrossCores) {
		f |= spreadsByID
	}
	if set.Has(scenario.Uncore) {
		f |= partialCache
	}
	p := podOf(s, d.call.Pod)
	if p == nil {
		return f
	}
	if d.call.Again {
		f |= hintsAnew
	}
	if d.call.Op == opAllocatePod {
		if d.call.Again {
			f |= allocatesAnew
		}
		if set.Has(scenario.FullPCPUs) {
			f |= splitSlices
		}
	}
	for _, c := range p.Containers {
		if c.Kind != scenario.Init || c.MilliCPU == 0 {
			continue
		}
		switch d.call.Op {
		case opAllocatePod:
			f |= initOverPool
		case opHints, opAllocate:
			f |= initAlone
			if d.call.Op == opHints {
				f |= initPins
			}
			if set.Has(scenario.FullPCPUs) {
				f |= smtWithoutReuse
			}
		}
	}
	switch d.call.Op {
	case opHints, opPodHints:
		f &^= averages | emptiesPool | widensToSockets | spreadsByID | partialCache
		if d.call.Op == opPodHints {
			f &^= initAlone | smtWithoutReuse
		}
	default:
		f &^= reservedCount | socketAverage | hintsAnew | initPins
	}
	return f
}

// oursIsRight checks our side of a difference: it is what the model without
// faults decides or, where the model does not follow us, as good.
func oursIsRight(d *disagreement, relevant fault) error {
	right, err := predict(d.trace.scenario, 0, d)
	if err != nil {
		return fmt.Errorf("the model cannot tell what is right: %w", err)
	}
	ours := withoutViews(d.ours)
	if ours.key() == right.key() {
		return nil
	}
	wrong := fmt.Errorf("ours is not what is right:\n       %s", right.key())
	if relevant&judgedFaults == 0 || d.call.Op != opAllocate && d.call.Op != opAllocatePod {
		return wrong
	}
	if ours.Err != "" || right.Err != "" {
		return wrong
	}
	if err := judge(d, right.State); err != nil {
		return fmt.Errorf("ours is worse than what is right: %w\n       %s", err, right.key())
	}
	return nil
}

// judge compares our allocation with one that follows the kubelet's rules but
// for its faults.
func judge(d *disagreement, right snapshot) error {
	s := d.trace.scenario
	m, err := newModel(s, 0)
	if err != nil {
		return err
	}
	pod, name := d.call.Pod, d.call.Container
	p := podOf(s, pod)
	get := func(state snapshot) cpuset.CPUSet {
		if d.call.Op == opAllocatePod {
			return parseSet(state.Pods[pod])
		}
		return parseSet(state.Containers[pod][name])
	}
	ours, reference := get(d.ours.State), get(right)
	mine := m.reusable(p, name, d.before.Containers[pod])
	switch {
	case ours.Size() != reference.Size():
		return fmt.Errorf("%d CPUs", ours.Size())
	case !ours.IsSubsetOf(m.free(d.before).Union(mine)):
		return fmt.Errorf("CPUs that were not free")
	case d.ours.State.Default != parseSet(d.before.Default).Difference(ours).String():
		return fmt.Errorf("a wrong node shared pool")
	case m.full() && !m.wholeCores(ours).Equals(ours):
		return fmt.Errorf("half cores")
	}
	if !d.call.Any {
		if a, b := m.on(d.call.Near, ours).Size(), m.on(d.call.Near, reference).Size(); a != b {
			return fmt.Errorf("%d CPUs near, not %d", a, b)
		}
	}
	if a, b := ours.Intersection(mine).Size(), reference.Intersection(mine).Size(); a != b {
		return fmt.Errorf("%d CPUs reused, not %d", a, b)
	}
	if a, b := len(m.ids(cache, ours)), len(m.ids(cache, reference)); a > b {
		return fmt.Errorf("%d caches, not %d", a, b)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"slices"

	"github.com/podslice/podslice/test/differential/scenario"
)

// explain finds the faults of the kubelet's own manager that make the
// difference. It answers none for a difference that no faults explain, with the
// reason.
func explain(d *disagreement) (fault, error) {
	s := d.trace.scenario
	relevant := faultsFor(d)
	judged, err := oursIsRight(d)
	if err != nil {
		return 0, err
	}
	for _, set := range append([]fault{0}, relevant.sets()...) {
		got, err := predict(s, set, d)
		if err == nil && got.key() == withoutViews(d.theirs).key() {
			if set |= judged; set != 0 {
				return set, nil
			}
		}
	}
	return 0, fmt.Errorf("no faults out of %q make the kubelet's own manager decide so", relevant)
}

func withoutViews(o outcome) outcome {
	o.Views = nil
	return o
}

// predict is what a manager with the faults does.
func predict(s *scenario.Scenario, faults fault, d *disagreement) (outcome, error) {
	if d.call.Op == opStart {
		m, err := newModel(s, faults)
		return m.started(err, d), nil
	}
	if d.model == nil || d.model.scenario != s {
		m, err := newModel(s, 0)
		if err != nil {
			return outcome{}, err
		}
		// Which CPUs are reserved was agreed on at the start.
		m.reserved = m.all.Difference(parseSet(d.trace.outcomes[0].Views["allocatable"]))
		d.model = m
	}
	return d.model.with(faults).play(d.before, d.call), nil
}

// started is a start: the reserved CPUs are all that is decided.
func (m *model) started(err error, d *disagreement) outcome {
	if m.scenario.Settings.Has(scenario.BySocket) && len(m.ids(socket, m.all)) > len(m.ids(node, m.all)) {
		return outcome{Err: socketsShare}
	}
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
	if !s.Machine.Regular() {
		f |= breaksCores
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
	if set.Has(scenario.AcrossNUMA) {
		f |= shrinksMask
		if set.Has(scenario.FullPCPUs) || set.Has(scenario.BySocket) {
			f |= neverReturns
		}
		if len(s.Machine.CPUNodes()) > 4 {
			f |= aliases
		}
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
		f &^= averages | neverReturns | widensToSockets | spreadsByID | partialCache | breaksCores | shrinksMask | aliases
		if d.call.Op == opPodHints {
			f &^= initAlone | smtWithoutReuse
		}
	default:
		f &^= reservedCount | socketAverage | hintsAnew | initPins
	}
	return f
}

// oursIsRight checks our side of a difference: it is what the model without
// faults decides. Where ours has a search that the model has not, it is what the
// search is for, and the fault is returned that it avoids.
func oursIsRight(d *disagreement) (fault, error) {
	right, err := predict(d.trace.scenario, 0, d)
	if err != nil {
		return 0, fmt.Errorf("the model cannot tell what is right: %w", err)
	}
	ours := withoutViews(d.ours)
	equal := ours.key() == right.key()
	if equal && (d.call.Op != opAllocatePod || d.call.Again || ours.Err != "") {
		return 0, nil
	}
	wrong := fmt.Errorf("ours is not what is right:\n       %s", right.key())
	m, err := newModel(d.trace.scenario, 0)
	if err != nil {
		return 0, err
	}
	unequalParts := m.scenario.Settings.Has(scenario.AcrossNUMA) && m.full() && m.mixedCores()
	if unequalParts && ours.Err != "" {
		// It must be refused without distribution, too.
		packed := *d.trace.scenario
		packed.Settings.Options = slices.DeleteFunc(slices.Clone(packed.Settings.Options), func(o string) bool { return o == scenario.AcrossNUMA })
		if right, err = predict(&packed, 0, d); err == nil && right.key() == ours.key() {
			return 0, nil
		}
	}
	if d.call.Op != opAllocatePod && d.call.Op != opAllocate || ours.Err != "" {
		return 0, wrong
	}
	m.reserved = m.all.Difference(parseSet(d.trace.outcomes[0].Views["allocatable"]))
	pod := podOf(m.scenario, d.call.Pod)
	if ours.State.Pods[pod.Name] == "" && equal {
		return 0, nil // it is not allocated as a whole
	}
	if !m.validPod(d, pod) {
		return 0, wrong
	}
	if unequalParts {
		// The kubelet has no rule for equal parts of unequal cores. Ours is tested
		// beside the code.
		return 0, nil
	}
	switch {
	case d.call.Op != opAllocatePod:
		return 0, wrong
	case m.full() && m.mixedCores() && (right.Err == fewCores || right.Err == notMultiple):
		// The budget was chosen so that its slices come out even.
		return 0, nil
	case right.Err != "":
		return 0, wrong
	}
	judged, err := m.judgeSlices(d, pod, right.State)
	if err == nil && judged == 0 && !equal {
		return 0, wrong
	}
	return judged, err
}

// mixedCores reports whether the machine has cores of several sizes.
func (m *model) mixedCores() bool {
	sizes := map[int]bool{}
	for _, id := range m.ids(core, m.all) {
		sizes[m.in(core, id, m.all).Size()] = true
	}
	return len(sizes) > 1
}

// validPod reports whether a pod, or a container, got what it may get.
func (m *model) validPod(d *disagreement, pod *scenario.Pod) bool {
	after := d.ours.State
	held, n := parseSet(after.Pods[pod.Name]), m.podCPUs(pod)
	offered := m.free(d.before)
	if d.call.Op == opAllocate {
		held, n = parseSet(after.Containers[pod.Name][d.call.Container]), m.exclusive(pod, containerOf(pod, d.call.Container))
		offered = offered.Union(m.reusable(pod, d.call.Container, d.before.Containers[pod.Name]))
	}
	if m.full() && !d.call.Any {
		if near := m.on(d.call.Near, offered); m.addsUp(near, n) {
			offered = near
		}
	}
	if !held.IsSubsetOf(offered) || after.Default != parseSet(d.before.Default).Difference(held).String() {
		return false
	}
	p := &property{trace: d.trace, call: d.call, before: d.before, after: d.ours}
	p.pod(m, pod.Name)
	return !p.failed
}

// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"

	"github.com/podslice/podslice/test/differential/scenario"
)

// explain finds the faults of the kubelet's own manager that make the
// difference. It answers none for a difference that no faults explain, with the
// reason.
func explain(d *disagreement) (fault, error) {
	s := d.trace.scenario
	relevant := faultsFor(d)
	if err := oursIsRight(d); err != nil {
		return 0, err
	}
	if right, err := predict(s, 0, d); err == nil && right.key() == withoutViews(d.theirs).key() {
		return oursTooLarge, nil
	}
	for _, set := range relevant.sets() {
		got, err := predict(s, set, d)
		if err == nil && got.key() == withoutViews(d.theirs).key() {
			return set, nil
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
// faults decides.
func oursIsRight(d *disagreement) error {
	right, err := predict(d.trace.scenario, 0, d)
	if err != nil {
		return fmt.Errorf("the model cannot tell what is right: %w", err)
	}
	ours := withoutViews(d.ours)
	if ours.key() == right.key() {
		return nil
	}
	if tooLargeForTheMachine(d, right) {
		return nil
	}
	return fmt.Errorf("ours is not what is right:\n       %s", right.key())
}

// tooLargeForTheMachine lets one known fault of ours pass: under full-pcpus-only
// a request that is larger than the whole machine is called no multiple of cores.
func tooLargeForTheMachine(d *disagreement, right outcome) bool {
	m, err := newModel(d.trace.scenario, 0)
	if err != nil {
		return false
	}
	p := podOf(d.trace.scenario, d.call.Pod)
	if p == nil {
		return false
	}
	n := m.podCPUs(p)
	if d.call.Op == opAllocate {
		n = m.exclusive(p, containerOf(p, d.call.Container))
	}
	return n > m.all.Size() && refusalKind(d.ours.Err) == notMultiple && right.Err == fewCores
}

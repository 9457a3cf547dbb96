// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// model decides slowly and plainly what a CPU manager with the given faults
// decides. It shares nothing with either side but the rules.
type model struct {
	scenario *scenario.Scenario
	faults   fault
	all      cpuset.CPUSet
	reserved cpuset.CPUSet
	cpus     map[int]scenario.CPU
	// members are the CPUs of each unit.
	members map[unit]map[int]cpuset.CPUSet
}

// unit is a kind of group that CPUs are in.
type unit int

const (
	core unit = iota
	socket
	node
	cache
)

func newModel(s *scenario.Scenario, faults fault) (*model, error) {
	m := &model{scenario: s, faults: faults, all: s.Machine.All(), cpus: map[int]scenario.CPU{}}
	lowest := map[int]int{}
	for _, c := range s.Machine.CPUs {
		if first, known := lowest[c.Core]; !known || c.ID < first {
			lowest[c.Core] = c.ID
		}
	}
	for _, c := range s.Machine.CPUs {
		c.Core = lowest[c.Core]
		if c.Cache < 0 {
			c.Cache = c.Socket
		}
		m.cpus[c.ID] = c
	}
	m.members = map[unit]map[int]cpuset.CPUSet{}
	for _, of := range []unit{core, socket, node, cache} {
		ids := map[int][]int{}
		for cpu := range m.cpus {
			ids[m.id(of, cpu)] = append(ids[m.id(of, cpu)], cpu)
		}
		m.members[of] = map[int]cpuset.CPUSet{}
		for id, list := range ids {
			m.members[of][id] = cpuset.New(list...)
		}
	}
	var err error
	if m.reserved = s.Settings.ReservedSet(); m.reserved.IsEmpty() {
		whole := m.full() && !faults.has(halfCores)
		if m.reserved, err = m.choose(m.all, s.Settings.ReservedCount, whole); err != nil && whole {
			m.reserved, err = m.choose(m.all, s.Settings.ReservedCount, false)
		}
	}
	return m, err
}

// with is the model with other faults and the same CPUs reserved.
func (m *model) with(faults fault) *model {
	other := *m
	other.faults = faults
	return &other
}

func (m *model) full() bool   { return m.scenario.Settings.Has(scenario.FullPCPUs) }
func (m *model) strict() bool { return m.scenario.Settings.Has(scenario.Strict) }

// whole reports whether only whole cores are given out.
func (m *model) whole() bool { return m.full() && !m.faults.has(halfCores) }

func (m *model) id(of unit, cpu int) int {
	c := m.cpus[cpu]
	return [...]int{c.Core, c.Socket, c.Node, c.Cache}[of]
}

// in is those of the CPUs that are in the unit.
func (m *model) in(of unit, id int, cpus cpuset.CPUSet) cpuset.CPUSet {
	return m.members[of][id].Intersection(cpus)
}

// ids lists the units that the CPUs are in.
func (m *model) ids(of unit, cpus cpuset.CPUSet) []int {
	var list []int
	for _, cpu := range cpus.UnsortedList() {
		list = append(list, m.id(of, cpu))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// average is the size of an average core or socket, rounded down.
func (m *model) average(of unit) int { return m.all.Size() / len(m.ids(of, m.all)) }

// levels is sockets and nodes, the larger first.
func (m *model) levels() (outer, inner unit) {
	if len(m.ids(socket, m.all)) >= len(m.ids(node, m.all)) {
		return node, socket
	}
	return socket, node
}

// ordered lists units of a kind that have free CPUs: by the order of the units
// around them, and then the fewest free first.
func (m *model) ordered(free cpuset.CPUSet, of unit, around ...unit) []int {
	if len(around) > 0 {
		var list []int
		for _, id := range m.ordered(free, around[0]) {
			for _, inner := range m.ordered(m.in(around[0], id, free), of, around[1:]...) {
				if !slices.Contains(list, inner) {
					list = append(list, inner)
				}
			}
		}
		return list
	}
	list := m.ids(of, free)
	slices.SortStableFunc(list, func(a, b int) int {
		return cmp.Compare(m.in(of, a, free).Size(), m.in(of, b, free).Size())
	})
	return list
}

// wholeCores is those of the CPUs whose core is among them with all its threads.
func (m *model) wholeCores(cpus cpuset.CPUSet) cpuset.CPUSet {
	whole := cpuset.New()
	for _, id := range m.ids(core, cpus) {
		if all := m.in(core, id, m.all); all.IsSubsetOf(cpus) {
			whole = whole.Union(all)
		}
	}
	return whole
}

// addsUp reports whether some of the whole cores among the CPUs have n threads.
func (m *model) addsUp(cpus cpuset.CPUSet, n int) bool {
	sums := map[int]bool{0: true}
	for _, id := range m.ids(core, m.wholeCores(cpus)) {
		size := m.in(core, id, m.all).Size()
		for _, sum := range sortedInts(sums) {
			sums[sum+size] = true
		}
	}
	return sums[n]
}

func sortedInts(set map[int]bool) []int {
	var list []int
	for n := range set {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

var errNotEnough = errors.New("not enough cpus available to satisfy request")

// taking is a choice that is being made.
type taking struct {
	*model
	free, taken cpuset.CPUSet
	need        int
	whole       bool
}

// choose takes n of the CPUs in from.
func (m *model) choose(from cpuset.CPUSet, n int, whole bool) (cpuset.CPUSet, error) {
	return m.chooseNear(from, n, whole, 0)
}

// chooseNear takes them from all of the near nodes if CPUs are distributed over
// nodes.
func (m *model) chooseNear(from cpuset.CPUSet, n int, whole bool, near uint64) (cpuset.CPUSet, error) {
	if m.scenario.Settings.Has(scenario.AcrossNUMA) {
		return m.distribute(from, n, whole, near)
	}
	return m.pack(from, n, whole)
}

// pack takes n of the CPUs as they are without distribution over nodes.
func (m *model) pack(from cpuset.CPUSet, n int, whole bool) (cpuset.CPUSet, error) {
	if whole {
		from = m.wholeCores(from)
		if !m.addsUp(from, n) {
			return cpuset.CPUSet{}, errNotEnough
		}
	}
	if n > from.Size() {
		return cpuset.CPUSet{}, errNotEnough
	}
	t := &taking{model: m, free: from, need: n, whole: whole, taken: cpuset.New()}
	outer, inner := m.levels()
	t.units(outer, t.ordered(t.free, outer))
	t.units(inner, t.ordered(t.free, inner, outer))
	set := m.scenario.Settings
	if set.Has(scenario.Uncore) && t.need > 0 {
		t.caches()
	}
	spread := set.Has(scenario.AcrossCores)
	switch {
	case spread:
	case t.whole || !t.faults.has(breaksCores) && t.mixedCores() && t.addsUp(t.free, t.need):
		// Cores of several sizes can add up without one being broken.
		t.exactly(t.ordered(t.free, core, outer, inner))
	default:
		t.units(core, t.ordered(t.free, core, outer, inner))
	}
	if t.need > 0 {
		if spread {
			t.singles(t.spreadOrder())
		} else {
			t.singles(t.packedOrder())
		}
	}
	if t.need > 0 {
		return cpuset.CPUSet{}, errors.New("failed to allocate cpus")
	}
	return t.taken, nil
}

func (t *taking) take(cpus cpuset.CPUSet) {
	t.taken = t.taken.Union(cpus)
	t.free = t.free.Difference(cpus)
	t.need -= cpus.Size()
}

// units takes units that are free and not larger than the need.
func (t *taking) units(of unit, ids []int) {
	before := t.free
	for _, id := range ids {
		all := t.in(of, id, t.all)
		free := all.IsSubsetOf(before)
		if t.faults.has(averages) && (of == core || of == socket) {
			free = t.in(of, id, before).Size() == t.average(of)
		}
		if !free || all.Size() > t.need {
			continue
		}
		if t.whole && !t.addsUp(t.free.Difference(all), t.need-all.Size()) {
			continue
		}
		t.take(all)
	}
}

// exactly takes whole cores that add up to the need: each unless those after it
// could not complete it then.
func (t *taking) exactly(order []int) {
	for i, id := range order {
		all := t.in(core, id, t.all)
		if !all.IsSubsetOf(t.free) || all.Size() > t.need {
			continue
		}
		after := cpuset.New()
		for _, later := range order[i+1:] {
			after = after.Union(t.in(core, later, t.free))
		}
		if t.addsUp(after, t.need-all.Size()) {
			t.take(all)
		}
	}
}

func (t *taking) singles(order []int) {
	for _, cpu := range order {
		t.take(cpuset.New(cpu))
		if t.need <= 0 {
			return
		}
	}
}

func (t *taking) packedOrder() []int {
	outer, inner := t.levels()
	var order []int
	for _, id := range t.ordered(t.free, core, outer, inner) {
		order = append(order, t.in(core, id, t.free).List()...)
	}
	return order
}

// spreadOrder goes socket by socket: one thread of each core, then the next.
func (t *taking) spreadOrder() []int {
	outer, inner := t.levels()
	sockets := t.ordered(t.free, socket)
	if outer != socket {
		sockets = t.ordered(t.free, inner, outer)
	}
	var order []int
	for _, id := range sockets {
		cpus := t.in(socket, id, t.free).List()
		if !t.faults.has(spreadsByID) {
			turn := map[int]int{}
			for _, id := range t.ids(core, t.free) {
				for i, cpu := range t.in(core, id, t.free).List() {
					turn[cpu] = i
				}
			}
			slices.SortStableFunc(cpus, func(a, b int) int { return turn[a] - turn[b] })
		}
		order = append(order, cpus...)
	}
	return order
}

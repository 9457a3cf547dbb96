// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"cmp"
	"fmt"
	"slices"
)

// NotEnoughError says that fewer CPUs were on offer than were asked for.
type NotEnoughError struct {
	Requested int
	Offered   Set
}

func (e *NotEnoughError) Error() string {
	return fmt.Sprintf("not enough cpus available to satisfy request: requested=%d, available=%d", e.Requested, e.Offered.Size())
}

// packing is how take chooses among the CPUs on offer.
type packing struct {
	// wholeCores takes cores with all their threads or not at all.
	wholeCores bool
	// spread takes one thread of each core before it takes a second one.
	spread bool
	// caches prefers CPUs that share a last-level cache.
	caches bool
}

// Take chooses n of the CPUs in from, packed: it fills whole units before it
// breaks one, and among units it prefers those with the fewest CPUs left on
// offer, so that larger holes stay whole for later requests. In order:
//
//  1. whole sockets or whole NUMA nodes, whichever of the two is the larger
//     unit on this machine, that are on offer with all their CPUs and are not
//     larger than what is still needed; then the other of the two;
//  2. whole cores, in the order of their socket and node; if cores of several
//     sizes add up to just what is needed, those that do;
//  3. single CPUs, in the order of their socket, node and core.
//
// This is the order of the kubelet's static policy (KEP-693), with each unit
// judged by its own size. The result is always a subset of from. Ties go to
// the lower ID, so equal inputs give equal results.
func (t *Topology) Take(from Set, n int) (Set, error) { return t.take(from, n, packing{}) }

// TakeWholeCores is Take without step 3: the result consists of whole cores
// only. It fails with a NotEnoughError when the cores that are on offer with
// all their threads do not add up to exactly n CPUs.
func (t *Topology) TakeWholeCores(from Set, n int) (Set, error) {
	return t.take(from, n, packing{wholeCores: true})
}

// take is Take with other ways to pack. Caches come between steps 1 and 2 (see
// takeCaches), and spreading replaces steps 2 and 3 (see takeSpread).
func (t *Topology) take(from Set, n int, how packing) (Set, error) {
	from = from.Intersection(t.all)
	if how.wholeCores {
		from = t.WholeCores(from)
	}
	p := picker{t: t, free: from, need: max(n, 0)}
	var feasible func(Set, int) bool
	if how.wholeCores {
		feasible = p.addsUp
	}
	if n > from.Size() || feasible != nil && !feasible(from, p.need) {
		return Set{}, &NotEnoughError{Requested: n, Offered: from}
	}
	first, second := t.outerLevels()
	p.takeUnits(p.inOrder(first), feasible)
	p.takeUnits(p.inOrder(second, first), feasible)
	if how.caches {
		p.takeCaches(feasible)
	}
	switch {
	case how.wholeCores:
		p.takeExactCores(p.coresInOrder())
	case how.spread:
		p.takeSpread()
	default:
		p.takeCores()
		p.takeSingles()
	}
	return p.taken, nil
}

// outerLevels returns sockets and nodes, the larger kind first.
func (t *Topology) outerLevels() (first, second *level) {
	if len(t.sockets.units) >= len(t.nodes.units) {
		return &t.nodes, &t.sockets
	}
	return &t.sockets, &t.nodes
}

// picker takes CPUs from free until need is 0.
type picker struct {
	t           *Topology
	free, taken Set
	need        int
}

func (p *picker) take(cpus Set) {
	p.taken = p.taken.Union(cpus)
	p.free = p.free.Difference(cpus)
	p.need -= cpus.Size()
}

// takeUnits takes those of the units that are wholly free and not larger than
// what is needed. With feasible, a unit is left when what remains after it
// could not be completed.
func (p *picker) takeUnits(units []unit, feasible func(Set, int) bool) {
	for _, u := range units {
		size := u.cpus.Size()
		if size > p.need || !u.cpus.IsSubsetOf(p.free) {
			continue
		}
		if feasible != nil && !feasible(p.free.Difference(u.cpus), p.need-size) {
			continue
		}
		p.take(u.cpus)
	}
}

func (p *picker) takeCores() {
	// Cores of several sizes can add up without one being broken.
	if len(p.t.coreSizes) > 1 && p.addsUp(p.free, p.need) {
		p.takeExactCores(p.coresInOrder())
		return
	}
	for _, core := range p.coresInOrder() {
		if size := core.cpus.Size(); size <= p.need && core.cpus.IsSubsetOf(p.free) {
			p.take(core.cpus)
		}
	}
}

func (p *picker) takeSingles() {
	for _, core := range p.coresInOrder() {
		for cpu := range core.cpus.Intersection(p.free).All() {
			if p.need == 0 {
				return
			}
			p.take(NewSet(cpu))
		}
	}
}

// takeExactCores completes the need from whole cores, which must be able to. A
// core is taken only if the cores after it can complete the rest.
func (p *picker) takeExactCores(cores []unit) {
	after := make(coreCounts, len(p.t.coreSizes))
	for _, core := range cores {
		if core.cpus.IsSubsetOf(p.free) {
			after[p.t.sizeOfCore[p.t.cores.of[core.cpus.first()]]]++
		}
	}
	for _, core := range cores {
		if p.need == 0 {
			return
		}
		if !core.cpus.IsSubsetOf(p.free) {
			continue
		}
		after[p.t.sizeOfCore[p.t.cores.of[core.cpus.first()]]]--
		if size := core.cpus.Size(); size <= p.need && p.t.addUp(after, p.need-size) {
			p.take(core.cpus)
		}
	}
}

// addsUp reports whether some of the whole cores in free have n CPUs together.
func (p *picker) addsUp(free Set, n int) bool {
	return p.t.addUp(p.t.countWholeCores(free), n)
}

// byFree returns the units of a level that have free CPUs, the fewest first.
func (p *picker) byFree(l *level) []unit {
	free := make([]int, len(l.units))
	for cpu := range p.free.All() {
		free[l.of[cpu]]++
	}
	order := make([]int, 0, len(l.units))
	for i, n := range free {
		if n > 0 {
			order = append(order, i)
		}
	}
	// Units are stored by ascending ID and the sort is stable.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(free[a], free[b]) })
	units := make([]unit, len(order))
	for i, index := range order {
		units[i] = l.units[index]
	}
	return units
}

// coresInOrder returns the cores that have free CPUs.
func (p *picker) coresInOrder() []unit {
	outer, inner := p.t.outerLevels()
	return p.inOrder(&p.t.cores, outer, inner)
}

// inOrder returns the units of a level that have free CPUs. Those in the unit
// of the first level around them with the fewest free CPUs come first, within
// it those in the unit of the next level around with the fewest, and last it
// counts how many are free in the units themselves.
func (p *picker) inOrder(l *level, around ...*level) []unit {
	units := p.byFree(l)
	for _, outer := range slices.Backward(around) {
		rank := p.rank(outer)
		slices.SortStableFunc(units, func(a, b unit) int {
			return cmp.Compare(rank[outer.of[a.cpus.first()]], rank[outer.of[b.cpus.first()]])
		})
	}
	return units
}

// rank gives each unit of a level its place in the order of byFree.
func (p *picker) rank(l *level) []int {
	ranks := make([]int, len(l.units))
	for place, u := range p.byFree(l) {
		ranks[l.of[u.cpus.first()]] = place
	}
	return ranks
}

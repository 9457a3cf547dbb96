// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"cmp"
	"slices"

	"k8s.io/utils/cpuset"
)

// caches takes CPUs that share caches: if one can serve all of the need, from
// that; else whole ones, and the rest from one.
func (t *taking) caches() {
	if t.faults.has(partialCache) {
		t.partialCaches()
		return
	}
	ids := t.cachesInOrder()
	if t.oneCache(ids) {
		return
	}
	t.units(cache, ids)
	t.oneCache(ids)
}

// cachesInOrder lists caches by their node and then the fewest free CPUs first.
func (t *taking) cachesInOrder() []int {
	outer, inner := t.levels()
	nodes := t.ordered(t.free, node)
	if outer != node {
		nodes = t.ordered(t.free, inner, outer)
	}
	var list []int
	for _, id := range nodes {
		part := t.ids(cache, t.in(node, id, t.free))
		slices.SortStableFunc(part, func(a, b int) int {
			return cmp.Compare(t.in(cache, a, t.free).Size(), t.in(cache, b, t.free).Size())
		})
		for _, c := range part {
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	return list
}

// oneCache takes all of the need from one cache: the lowest cores of one that has
// just what is needed there or, if none has, packed from the first with room.
func (t *taking) oneCache(ids []int) bool {
	if t.need <= 0 {
		return true
	}
	for _, id := range ids {
		free := t.in(cache, id, t.free)
		if free.Size() < t.need {
			continue
		}
		lowest, threads := cpuset.New(), 0
		for _, c := range t.ids(core, free) {
			if threads < t.need {
				lowest = lowest.Union(t.in(core, c, free))
				threads += t.in(core, c, t.all).Size()
			}
		}
		if list := lowest.List(); !t.whole && t.need%2 == 1 && len(list) == t.need+1 {
			lowest = cpuset.New(list[:t.need]...)
		}
		if lowest.Size() == t.need {
			t.take(lowest)
			return true
		}
	}
	for _, id := range ids {
		free := t.in(cache, id, t.free)
		if free.Size() < t.need || t.whole && !t.addsUp(free, t.need) {
			continue
		}
		inside := &taking{model: t.model, free: free, need: t.need, whole: t.whole, taken: cpuset.New()}
		outer, inner := t.levels()
		if order := inside.ordered(free, core, outer, inner); t.whole || t.mixedCores() && t.addsUp(free, t.need) {
			inside.exactly(order)
		} else {
			inside.units(core, order)
		}
		if inside.need > 0 {
			inside.singles(inside.packedOrder())
		}
		t.take(inside.taken)
		return true
	}
	return false
}

// partialCaches is the kubelet's own way.
func (t *taking) partialCaches() {
	outer, inner := t.levels()
	sorted := func() []int {
		nodes := t.ordered(t.free, node)
		if outer != node {
			nodes = t.ordered(t.free, inner, outer)
		}
		var list []int
		for _, id := range nodes {
			part := t.ids(cache, t.in(node, id, t.free))
			slices.SortStableFunc(part, func(a, b int) int {
				return cmp.Compare(t.in(cache, a, t.free).Size(), t.in(cache, b, t.free).Size())
			})
			list = append(list, part...)
		}
		return list
	}
	threads := t.average(core)
	for _, id := range sorted() {
		if t.need >= t.average(cache) {
			t.units(cache, sorted())
		}
		if t.need <= 0 {
			return
		}
		cores := t.ids(core, t.in(cache, id, t.free))
		cores = cores[:min(len(cores), (t.need+threads-1)/threads)]
		var cpus []int
		for _, c := range cores {
			cpus = append(cpus, t.in(core, c, t.free).List()...)
		}
		slices.Sort(cpus)
		if t.need%2 != 0 && threads > 1 && len(cpus) > t.need {
			cpus = cpus[:len(cpus)-1]
		}
		if len(cpus) == t.need {
			t.take(cpuset.New(cpus...))
			return
		}
	}
}

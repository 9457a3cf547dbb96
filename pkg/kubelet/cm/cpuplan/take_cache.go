// SPDX-License-Identifier: Apache-2.0

package cpuplan

// takeCaches takes CPUs that share last-level caches (KEP-4800). If one cache
// can serve what is still needed, it does; otherwise whole caches are taken
// that are not larger than that, and what then remains comes from one cache, if
// one has as many. The rest is left to the steps after this one.
//
// Within a cache that serves a part of itself, the cores with the lowest IDs are
// taken if they have just what is needed, and otherwise whole cores before single
// CPUs. The kubelet only does the former, and so may leave a cache that has room
// (kubernetes/kubernetes issue 137315).
func (p *picker) takeCaches(feasible func(Set, int) bool) {
	caches := p.cachesInOrder()
	if p.takeFromOneCache(caches, feasible) {
		return
	}
	p.takeUnits(caches, feasible)
	p.takeFromOneCache(caches, feasible)
}

// takeFromOneCache completes the need from a single cache, if one can.
func (p *picker) takeFromOneCache(caches []unit, feasible func(Set, int) bool) bool {
	if p.need == 0 {
		return true
	}
	for _, cache := range caches {
		if cpus, ok := p.lowestCores(cache.cpus, feasible == nil); ok {
			p.take(cpus)
			return true
		}
	}
	for _, cache := range caches {
		inside := picker{t: p.t, free: p.free.Intersection(cache.cpus), need: p.need}
		if inside.free.Size() < p.need || feasible != nil && !feasible(inside.free, p.need) {
			continue
		}
		if feasible != nil {
			inside.takeExactCores(inside.coresInOrder())
		} else {
			inside.takeCores()
			inside.takeSingles()
		}
		p.take(inside.taken)
		return true
	}
	return false
}

// lowestCores is what is free of the cores with the lowest IDs in a cache, as
// many as would serve the need with all their threads. It answers false if these
// do not have just what is needed. Of an odd number one thread may be left over
// if cores may be split: the one with the highest ID.
func (p *picker) lowestCores(cache Set, split bool) (Set, bool) {
	free := cache.Intersection(p.free)
	if free.Size() < p.need {
		return Set{}, false
	}
	var cpus Set
	threads := 0
	for _, core := range p.t.cores.units {
		if threads >= p.need {
			break
		}
		if part := core.cpus.Intersection(free); !part.IsEmpty() {
			cpus = cpus.Union(part)
			threads += core.cpus.Size()
		}
	}
	if split && p.need%2 == 1 && cpus.Size() == p.need+1 {
		list := cpus.List()
		cpus = NewSet(list[:p.need]...)
	}
	return cpus, cpus.Size() == p.need
}

// cachesInOrder returns the caches that have free CPUs, in the order of their
// NUMA node and then the fewest free first. A cache of several nodes comes with
// the first of them that has CPUs of it.
func (p *picker) cachesInOrder() []unit {
	first, second := p.t.outerLevels()
	nodes := &p.t.nodes
	var ordered []unit
	if first == nodes {
		ordered = p.inOrder(nodes)
	} else {
		ordered = p.inOrder(second, first)
	}
	caches := p.byFree(&p.t.caches)
	seen := make([]bool, len(p.t.caches.units))
	var order []unit
	for _, node := range ordered {
		free := node.cpus.Intersection(p.free)
		for _, cache := range caches {
			index := p.t.caches.of[cache.cpus.first()]
			if !seen[index] && cache.cpus.Overlaps(free) {
				seen[index] = true
				order = append(order, cache)
			}
		}
	}
	return order
}

// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// free is what can be given out.
func (m *model) free(s snapshot) cpuset.CPUSet { return parseSet(s.Default).Difference(m.reserved) }

// checkCores is full-pcpus-only's refusal.
func (m *model) checkCores(s snapshot, mine cpuset.CPUSet, n int) string {
	if !m.full() {
		return ""
	}
	if m.faults.has(halfCores) {
		if n%m.average(core) != 0 {
			return notMultiple
		}
		physical := cpuset.New()
		for _, id := range m.ids(core, m.reserved) {
			physical = physical.Union(m.in(core, id, m.all))
		}
		room := parseSet(s.Default).Difference(physical)
		if !m.faults.has(smtWithoutReuse) {
			room = room.Union(mine)
		}
		if n > room.Size() {
			return fewCores
		}
		return ""
	}
	room := m.wholeCores(m.free(s))
	if !m.faults.has(smtWithoutReuse) {
		room = room.Union(mine)
	}
	return m.cores(room, n)
}

// cores is the refusal of n CPUs out of the whole cores in room.
func (m *model) cores(room cpuset.CPUSet, n int) string {
	switch {
	case m.addsUp(room, n):
		return ""
	case m.composable(n):
		return fewCores
	default:
		return notMultiple
	}
}

// composable reports whether any number of cores, of the sizes that there are,
// has n CPUs.
func (m *model) composable(n int) bool {
	sizes := map[int]bool{}
	for _, id := range m.ids(core, m.all) {
		sizes[m.in(core, id, m.all).Size()] = true
	}
	reachable := map[int]bool{0: true}
	for sum := 1; sum <= n; sum++ {
		for size := range sizes {
			if reachable[sum-size] {
				reachable[sum] = true
			}
		}
	}
	return reachable[n]
}

// allocateWithin takes n CPUs for a container out of the peak CPUs that it and
// those after it need at once, unless fewer of them are in the affinity's nodes.
func (m *model) allocateWithin(s snapshot, mine cpuset.CPUSet, n, peak int, c call) (cpuset.CPUSet, string) {
	free := m.free(s)
	alone, err := m.allocate(free, mine, n, c)
	if err != "" || peak <= n || m.faults.has(initAlone) {
		return alone, err
	}
	block, err := m.allocate(free, mine, peak, c)
	if err != "" {
		return alone, ""
	}
	within, err := m.allocate(block.Difference(mine), block.Intersection(mine), n, c)
	if err != "" || !c.Any && m.on(c.Near, within).Size() < m.on(c.Near, alone).Size() {
		return alone, ""
	}
	return within, ""
}

// allocate takes n CPUs, in the affinity's nodes first.
func (m *model) allocate(offered, mine cpuset.CPUSet, n int, c call) (cpuset.CPUSet, string) {
	if m.whole() {
		offered = m.wholeCores(offered)
	}
	all := offered.Union(mine)
	var tiers []cpuset.CPUSet
	if !c.Any {
		near := m.on(c.Near, m.all)
		if !m.scenario.Settings.Has(scenario.BySocket) || !m.faults.has(widensToSockets) {
			tiers = append(tiers, near)
		}
		if m.scenario.Settings.Has(scenario.BySocket) {
			wide := cpuset.New()
			for _, id := range m.ids(socket, near) {
				wide = wide.Union(m.in(socket, id, m.all))
			}
			tiers = append(tiers, wide)
		}
	}
	tiers = append(tiers, m.all)
	taken := cpuset.New()
	for i, tier := range tiers {
		left := all.Difference(taken)
		pool := left.Intersection(tier)
		need := n - taken.Size()
		want := min(need, pool.Size())
		if m.whole() {
			want = m.most(pool, left, need)
		}
		if i == len(tiers)-1 {
			want = need
		}
		better := mine.Intersection(pool)
		if m.faults.has(initAlone) {
			better = cpuset.New()
		}
		near := uint64(0)
		if i == 0 {
			near = c.Near // none if the affinity is any
		}
		cpus, err := m.betterFirst(pool, better, want, m.whole(), near)
		if err != nil {
			return cpuset.CPUSet{}, err.Error()
		}
		taken = taken.Union(cpus)
	}
	return taken, ""
}

// most is how many CPUs whole cores of the pool can give so that whole cores of
// the rest can complete the need.
func (m *model) most(pool, all cpuset.CPUSet, need int) int {
	inside := m.wholeCores(pool)
	for n := min(need, inside.Size()); n > 0; n-- {
		if m.addsUp(inside, n) && m.addsUp(all.Difference(inside), need-n) {
			return n
		}
	}
	return 0
}

// betterFirst takes n of the CPUs that are left, as many as possible of those
// that are better to take. If the usual choice has as many, that is it; if not,
// those are taken, then threads of the same cores, then others.
func (m *model) betterFirst(left, better cpuset.CPUSet, n int, whole bool, near uint64) (cpuset.CPUSet, error) {
	usual, err := m.chooseNear(left, n, whole, near)
	if err != nil {
		return usual, err
	}
	most := func(pool, all cpuset.CPUSet, need int) int {
		if whole {
			return m.most(pool, all, need)
		}
		return min(need, pool.Size())
	}
	wanted := most(better, left, n)
	if usual.Intersection(better).Size() >= wanted {
		return usual, nil
	}
	taken, err := m.choose(better, wanted, whole)
	if err != nil {
		return taken, err
	}
	var pools []func() cpuset.CPUSet
	if !m.scenario.Settings.Has(scenario.AcrossCores) {
		pools = append(pools, func() cpuset.CPUSet {
			siblings := cpuset.New()
			for _, id := range m.ids(core, taken) {
				siblings = siblings.Union(m.in(core, id, left))
			}
			return siblings.Difference(taken)
		})
	}
	pools = append(pools, func() cpuset.CPUSet { return left.Difference(taken) })
	for _, pool := range pools {
		from := pool()
		cpus, err := m.choose(from, most(from, left.Difference(taken), n-taken.Size()), whole)
		if err != nil {
			return cpus, err
		}
		taken = taken.Union(cpus)
	}
	return taken, nil
}

// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"math/bits"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

func (m *model) containerHints(s snapshot, p *scenario.Pod, c call) *[]hint {
	n := m.exclusive(p, containerOf(p, c.Container))
	if n == 0 {
		return nil
	}
	if text, ok := s.Containers[p.Name][c.Container]; ok {
		return m.recorded(parseSet(text), n)
	}
	mine := m.reusable(p, c.Container, s.Containers[p.Name])
	hints := m.fresh(s, mine, n)
	if hints == nil || len(*hints) == 0 {
		return hints
	}
	if peak := m.peak(p, c.Container); peak > n && !m.faults.has(initAlone) {
		return m.withRoom(hints, m.free(s).Union(mine), peak)
	}
	return hints
}

// peak is how many CPUs a container and those after it, which are to reuse its
// CPUs, need at once.
func (m *model) peak(p *scenario.Pod, name string) int {
	var after []scenario.Container
	for i, c := range p.Containers {
		if c.Name == name {
			after = p.Containers[i:]
		}
	}
	n := m.exclusive(p, after[0])
	if after[0].Kind != scenario.Init {
		return n
	}
	beside, longRunning, taken := 0, []int{}, 0
	for _, c := range after {
		switch each := m.exclusive(p, c); c.Kind {
		case scenario.Init:
			n = max(n, beside+each)
		case scenario.Sidecar:
			beside += each
			fallthrough
		default:
			longRunning = append(longRunning, each)
		}
	}
	// The containers that run on take over what init containers had, until that
	// is used up.
	for _, each := range longRunning {
		if taken < n {
			taken += each
		}
	}
	return max(n, taken)
}

// withRoom leaves out the hints that cannot be widened to as many nodes as peak
// CPUs need, so that they have room for these, if a preferred hint remains.
func (m *model) withRoom(hints *[]hint, free cpuset.CPUSet, peak int) *[]hint {
	if m.whole() {
		free = m.wholeCores(free)
	}
	width := m.narrowest(peak)
	roomy, preferred := []hint{}, false
	for _, h := range *hints {
		possible := m.on(h.Nodes, free).Size() >= peak
		for _, wide := range m.masks() {
			if wide&h.Nodes == h.Nodes && bits.OnesCount64(wide) <= width && m.on(wide, free).Size() >= peak {
				possible = true
			}
		}
		if possible {
			roomy = append(roomy, h)
			preferred = preferred || h.Preferred
		}
	}
	if preferred {
		return &roomy
	}
	return hints
}

func (m *model) podHints(s snapshot, p *scenario.Pod, c call) *[]hint {
	n := m.podCPUs(p)
	if n == 0 {
		return nil
	}
	held := parseSet(s.Pods[p.Name])
	for _, text := range s.Containers[p.Name] {
		held = held.Union(parseSet(text))
	}
	if !held.IsEmpty() && !m.faults.has(hintsAnew) {
		return m.recorded(held, n)
	}
	if p.Budget != nil && m.carveError(p) != "" {
		return &[]hint{}
	}
	assigned := cpuset.New()
	for _, c := range p.Containers {
		if text, ok := s.Containers[p.Name][c.Name]; ok {
			cpus := parseSet(text)
			if cpus.Size() != m.exclusive(p, c) {
				return &[]hint{}
			}
			assigned = assigned.Union(cpus)
		}
	}
	if assigned.Size() == n {
		return m.hints(assigned, cpuset.New(), n)
	}
	return m.fresh(s, assigned, n)
}

// fresh is the hints of what is to be allocated.
func (m *model) fresh(s snapshot, mine cpuset.CPUSet, n int) *[]hint {
	if m.whole() {
		all := m.free(s).Union(mine)
		if all.Size() >= n && !m.addsUp(m.wholeCores(m.free(s)).Union(mine), n) {
			return nil // no affinity would help; allocating says what is wrong
		}
	}
	if !m.faults.has(emptiesPool) && n-mine.Size() >= parseSet(s.Default).Size() {
		return &[]hint{}
	}
	return m.hints(m.free(s), mine, n)
}

// recorded is the hints of what holds CPUs already.
func (m *model) recorded(held cpuset.CPUSet, n int) *[]hint {
	if m.faults.has(hintsAnew) {
		if held.Size() != n {
			return &[]hint{}
		}
		return m.hints(held, cpuset.New(), n)
	}
	return &[]hint{{m.mask(m.ids(node, held)), true}}
}

func (m *model) mask(ids []int) uint64 {
	var mask uint64
	for _, id := range ids {
		mask |= 1 << id
	}
	return mask
}

// masks lists all sets of NUMA nodes with CPUs, the smallest first.
func (m *model) masks() []uint64 {
	nodes := m.ids(node, m.all)
	var masks []uint64
	for subset := 1; subset < 1<<len(nodes); subset++ {
		var ids []int
		for i, id := range nodes {
			if subset>>i&1 == 1 {
				ids = append(ids, id)
			}
		}
		masks = append(masks, m.mask(ids))
	}
	slices.SortStableFunc(masks, func(a, b uint64) int { return bits.OnesCount64(a) - bits.OnesCount64(b) })
	return masks
}

func (m *model) on(mask uint64, cpus cpuset.CPUSet) cpuset.CPUSet {
	found := cpuset.New()
	for _, id := range scenario.Bits(mask) {
		found = found.Union(m.in(node, id, cpus))
	}
	return found
}

// fits reports whether n of the CPUs can be given out.
func (m *model) fits(cpus cpuset.CPUSet, n int) bool {
	if m.whole() {
		return m.addsUp(cpus, n)
	}
	return cpus.Size() >= n
}

// narrowest is how few nodes could serve the request on an idle machine.
func (m *model) narrowest(n int) int {
	for _, mask := range m.masks() {
		if m.faults.has(reservedCount) {
			if m.on(mask, m.all).Size() >= n {
				return bits.OnesCount64(mask)
			}
			continue
		}
		idle := m.all.Difference(m.reserved)
		if m.whole() {
			idle = m.wholeCores(idle)
		}
		if m.fits(m.on(mask, idle), n) {
			return bits.OnesCount64(mask)
		}
	}
	return len(m.ids(node, m.all))
}

// fewestSockets is how few sockets could.
func (m *model) fewestSockets(n int) int {
	sockets := m.ids(socket, m.all)
	if m.faults.has(socketAverage) {
		perSocket := len(m.ids(node, m.all)) / len(sockets)
		if perSocket == 0 {
			return -1
		}
		return (m.narrowest(n) + perSocket - 1) / perSocket
	}
	idle := m.all.Difference(m.reserved)
	if m.whole() {
		idle = m.wholeCores(idle)
	}
	var sizes []int
	for _, id := range sockets {
		sizes = append(sizes, m.in(socket, id, idle).Size())
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	for i, size := range sizes {
		if n -= size; n <= 0 {
			return i + 1
		}
	}
	return len(sockets)
}

// hints lists the sets of nodes that can serve n CPUs out of free and mine.
func (m *model) hints(free, mine cpuset.CPUSet, n int) *[]hint {
	if m.whole() {
		free = m.wholeCores(free)
	}
	all := free.Union(mine)
	narrowest, sockets := m.narrowest(n), m.fewestSockets(n)
	must := m.mask(m.ids(node, mine))
	list, covering, covered := []hint{}, []hint{}, false
	for _, mask := range m.masks() {
		if !m.fits(m.on(mask, all), n) {
			continue
		}
		h := hint{mask, bits.OnesCount64(mask) == narrowest}
		if m.scenario.Settings.Has(scenario.BySocket) && len(m.ids(socket, m.on(mask, m.all))) == sockets {
			h.Preferred = true
		}
		list = append(list, h)
		if mask&must == must {
			covering = append(covering, h)
			covered = covered || h.Preferred
		}
	}
	if covered || must == 0 || m.faults.has(initPins) {
		return &covering
	}
	return &list
}

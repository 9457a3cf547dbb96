// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"maps"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// podOf is the pod of that name.
func podOf(s *scenario.Scenario, name string) *scenario.Pod {
	for _, e := range s.Events {
		if e.Admit != nil && e.Admit.Name == name {
			return e.Admit
		}
	}
	return nil
}

// exclusive is how many CPUs the container gets for itself.
func (m *model) exclusive(p *scenario.Pod, c scenario.Container) int {
	if !p.Guaranteed() || c.MilliCPU%1000 != 0 {
		return 0
	}
	if p.Budget != nil && (!m.scenario.Settings.PodLevel || !c.Guaranteed()) {
		return 0
	}
	return c.MilliCPU / 1000
}

// podCPUs is the pod's total.
func (m *model) podCPUs(p *scenario.Pod) int {
	if p.Budget != nil {
		if !m.scenario.Settings.PodLevel || !p.Guaranteed() || p.Budget.MilliCPU%1000 != 0 {
			return 0
		}
		return p.Budget.MilliCPU / 1000
	}
	most, sidecars, apps := 0, 0, 0
	for _, c := range p.Containers {
		switch n := m.exclusive(p, c); c.Kind {
		case scenario.Init:
			most = max(most, sidecars+n)
		case scenario.Sidecar:
			sidecars += n
		default:
			apps += n
		}
	}
	return max(most, sidecars+apps)
}

// reusable is what the container can have of its pod's ended init containers.
func (m *model) reusable(p *scenario.Pod, before string, held map[string]string) cpuset.CPUSet {
	cpus := cpuset.New()
	for _, c := range p.Containers {
		if c.Name == before {
			break
		}
		text, ok := held[c.Name]
		if !ok || m.exclusive(p, c) == 0 {
			continue
		}
		if c.Kind == scenario.Init {
			cpus = cpus.Union(parseSet(text))
		} else {
			cpus = cpus.Difference(parseSet(text))
		}
	}
	return cpus
}

// carveError is why the pod's budget cannot be carved, or "".
func (m *model) carveError(p *scenario.Pod) string {
	budget, exclusive, shares := m.podCPUs(p), 0, false
	for _, c := range p.Containers {
		n := m.exclusive(p, c)
		switch {
		case c.Kind == scenario.Init:
			if n == 0 && exclusive >= budget {
				return initPool
			}
		case n == 0:
			shares = true
		default:
			exclusive += n
		}
	}
	if shares && exclusive >= budget {
		return podPool
	}
	return ""
}

func (s snapshot) clone() snapshot {
	c := snapshot{Default: s.Default, Pods: maps.Clone(s.Pods), Containers: map[string]map[string]string{}}
	if c.Pods == nil {
		c.Pods = map[string]string{}
	}
	for pod, containers := range s.Containers {
		c.Containers[pod] = maps.Clone(containers)
	}
	return c
}

func (s *snapshot) set(pod, container string, cpus cpuset.CPUSet) {
	if s.Containers[pod] == nil {
		s.Containers[pod] = map[string]string{}
	}
	s.Containers[pod][container] = cpus.String()
}

// play is what comes of a call. Views are left out.
func (m *model) play(before snapshot, c call) outcome {
	p := podOf(m.scenario, c.Pod)
	o := outcome{State: before}
	if c.Again && m.faults.has(hintsAnew) {
		with := *m
		with.faults |= initPins
		m = &with
	}
	switch c.Op {
	case opHints:
		o.Hints = m.containerHints(before, p, c)
	case opPodHints:
		o.Hints = m.podHints(before, p, c)
	case opAllocate:
		o.State, o.Err = m.allocateContainer(before, p, c)
	case opAllocatePod:
		o.State, o.Err = m.allocatePod(before, p, c)
	case opDrop:
		next := before.clone()
		free := parseSet(before.Default).Union(parseSet(before.Pods[c.Pod]))
		for _, cpus := range before.Containers[c.Pod] {
			free = free.Union(parseSet(cpus))
		}
		next.Default = free.String()
		delete(next.Pods, c.Pod)
		delete(next.Containers, c.Pod)
		o.State = next
	}
	if o.Err == errHang.Error() {
		return outcome{Hang: true}
	}
	return o
}

func (m *model) allocateContainer(before snapshot, p *scenario.Pod, c call) (snapshot, string) {
	n := m.exclusive(p, containerOf(p, c.Container))
	if _, held := before.Containers[p.Name][c.Container]; held || n == 0 {
		return before, ""
	}
	mine := m.reusable(p, c.Container, before.Containers[p.Name])
	if err := m.checkCores(before, mine, n); err != "" {
		return before, err
	}
	next := before.clone()
	cpus, err := m.allocateWithin(before, mine, n, m.peak(p, c.Container), c)
	if err != "" {
		return before, err
	}
	next.Default = parseSet(before.Default).Difference(cpus).String()
	next.set(p.Name, c.Container, cpus)
	if m.strict() && !m.faults.has(emptiesPool) && next.Default == "" {
		return before, poolEmpty
	}
	return next, ""
}

func containerOf(p *scenario.Pod, name string) scenario.Container {
	for _, c := range p.Containers {
		if c.Name == name {
			return c
		}
	}
	return scenario.Container{}
}

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

func (m *model) allocatePod(before snapshot, p *scenario.Pod, c call) (snapshot, string) {
	budget := m.podCPUs(p)
	_, held := before.Pods[p.Name]
	if budget == 0 || held && !m.faults.has(allocatesAnew) {
		return before, ""
	}
	if err := m.carveError(p); err != "" {
		return before, err
	}
	if err := m.checkCores(before, cpuset.New(), budget); err != "" {
		return before, err
	}
	pod, err := m.allocate(m.free(before), cpuset.New(), budget, c)
	if err != "" {
		return before, err
	}
	next := before.clone()
	next.Default = parseSet(before.Default).Difference(pod).String()
	next.Pods[p.Name] = pod.String()
	if err := m.carve(&next, p, pod); err != "" {
		if m.faults.has(splitSlices) {
			return next, err
		}
		return before, err
	}
	if m.strict() && !m.faults.has(emptiesPool) && next.Default == "" {
		return before, poolEmpty
	}
	return next, ""
}

// carve gives the containers their parts of the pod's CPUs.
func (m *model) carve(next *snapshot, p *scenario.Pod, pod cpuset.CPUSet) string {
	slice := func(left, better cpuset.CPUSet, n int) (cpuset.CPUSet, string) {
		whole := m.full() && !m.faults.has(splitSlices)
		if whole {
			if err := m.cores(left, n); err != "" {
				return cpuset.CPUSet{}, err
			}
		}
		cpus, err := m.betterFirst(left, better, n, whole, 0)
		if err != nil {
			return cpuset.CPUSet{}, err.Error()
		}
		return cpus, ""
	}
	slices := map[string]cpuset.CPUSet{}
	pool := pod
	for _, c := range p.Containers {
		if n := m.exclusive(p, c); n > 0 && c.Kind != scenario.Init {
			cpus, err := slice(pool, cpuset.New(), n)
			if err != "" {
				return err
			}
			slices[c.Name] = cpus
			pool = pool.Difference(cpus)
		}
	}
	left := pod
	for _, c := range p.Containers {
		n := m.exclusive(p, c)
		switch {
		case c.Kind == scenario.Sidecar && n > 0:
			left = left.Difference(slices[c.Name])
		case c.Kind == scenario.Init && n > 0:
			better := left.Difference(pool)
			if m.faults.has(initOverPool) {
				better = cpuset.New()
			}
			cpus, err := slice(left, better, n)
			if err != "" {
				return err
			}
			slices[c.Name] = cpus
		case c.Kind == scenario.Init:
			slices[c.Name] = left
		case n == 0:
			slices[c.Name] = pool
		}
	}
	for name, cpus := range slices {
		next.set(p.Name, name, cpus)
	}
	return ""
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

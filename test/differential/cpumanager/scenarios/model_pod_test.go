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
		m = m.with(m.faults | initPins)
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

func containerOf(p *scenario.Pod, name string) scenario.Container {
	for _, c := range p.Containers {
		if c.Name == name {
			return c
		}
	}
	return scenario.Container{}
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

// carve gives the containers their parts of the pod's CPUs, the slices of
// long-running ones in their order.
func (m *model) carve(next *snapshot, p *scenario.Pod, pod cpuset.CPUSet) string {
	slices := map[string]cpuset.CPUSet{}
	pool := pod
	for _, c := range p.Containers {
		if n := m.exclusive(p, c); n > 0 && c.Kind != scenario.Init {
			cpus, err := m.slice(pool, cpuset.New(), n)
			if err != "" {
				return err
			}
			slices[c.Name] = cpus
			pool = pool.Difference(cpus)
		}
	}
	all, err := m.carveRest(p, pod, slices)
	if err != "" {
		return err
	}
	for name, one := range all {
		next.set(p.Name, name, one.cpus)
	}
	return ""
}

// slice takes n of the CPUs that are left.
func (m *model) slice(left, better cpuset.CPUSet, n int) (cpuset.CPUSet, string) {
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

// carved is what a container has, and for a slice of an init container what it
// could have without running where sidecars do.
type carved struct{ cpus, idle cpuset.CPUSet }

// carveRest gives the other containers theirs where the slices are.
func (m *model) carveRest(p *scenario.Pod, pod cpuset.CPUSet, slices map[string]cpuset.CPUSet) (map[string]carved, string) {
	all := map[string]carved{}
	pool := pod
	for name, cpus := range slices {
		all[name] = carved{cpus: cpus}
		pool = pool.Difference(cpus)
	}
	left, running := pod, cpuset.New()
	for _, c := range p.Containers {
		n := m.exclusive(p, c)
		switch {
		case c.Kind == scenario.Sidecar && n > 0:
			left = left.Difference(slices[c.Name])
		case c.Kind == scenario.Init && n > 0:
			idle := left.Difference(running)
			better := idle
			if m.faults.has(initOverPool) {
				better = cpuset.New()
			}
			cpus, err := m.slice(left, better, n)
			if err != "" {
				return nil, err
			}
			all[c.Name] = carved{cpus, idle}
		case c.Kind == scenario.Init:
			all[c.Name] = carved{cpus: left}
		case n == 0:
			all[c.Name] = carved{cpus: pool}
			if c.Kind == scenario.Sidecar {
				running = pool
			}
		}
	}
	return all, ""
}

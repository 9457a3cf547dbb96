// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"cmp"
	"fmt"
	"math/bits"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// The model takes the slices of a pod one after the other. Ours may do better,
// where a pod spans NUMA nodes or caches are to be shared. What it does instead
// is not foretold but judged: it must be better, and as good as anything that is
// found by trying everything.

// together is how well the slices of a pod lie together, in what counts.
type together struct{ whole, nodes, aligned, poolNodes int }

// compare is positive if t is better.
func (m *model) compare(t, o together) int {
	if m.scenario.Settings.Has(scenario.AcrossNUMA) {
		return cmp.Compare(t.whole, o.whole)
	}
	if !m.scenario.Settings.Has(scenario.Uncore) {
		t.aligned, o.aligned = 0, 0
	}
	return cmp.Or(cmp.Compare(t.whole, o.whole), cmp.Compare(o.nodes, t.nodes), cmp.Compare(t.aligned, o.aligned), cmp.Compare(o.poolNodes, t.poolNodes))
}

// lie looks at the slices of long-running containers.
func (m *model) lie(s snapshot, pod *scenario.Pod) together {
	var t together
	pool := parseSet(s.Pods[pod.Name])
	for _, c := range pod.Containers {
		if c.Kind == scenario.Init || m.exclusive(pod, c) == 0 {
			continue
		}
		cpus := parseSet(s.Containers[pod.Name][c.Name])
		width := len(m.ids(node, cpus))
		t.nodes += width
		if width == 1 {
			t.whole++
		}
		if len(m.ids(cache, cpus)) == 1 {
			t.aligned++
		}
		pool = pool.Difference(cpus)
	}
	t.poolNodes = len(m.ids(node, pool))
	return t
}

// mostWhole is how many slices of a pod at most could lie on one node each, out
// of the CPUs on offer, and on how few nodes the pool then could.
func (m *model) mostWhole(pod *scenario.Pod, offered cpuset.CPUSet) (most, poolNodes int) {
	var room, sizes []int
	for _, id := range m.ids(node, offered) {
		room = append(room, m.in(node, id, offered).Size())
	}
	pool := m.podCPUs(pod)
	for _, c := range pod.Containers {
		if n := m.exclusive(pod, c); n > 0 && c.Kind != scenario.Init {
			sizes = append(sizes, n)
			pool -= n
		}
	}
	most = -1
	var place func(sizes []int, whole int)
	place = func(rest []int, whole int) {
		if len(rest) > 0 {
			for i := range room {
				if room[i] >= rest[0] {
					room[i] -= rest[0]
					place(rest[1:], whole+1)
					room[i] += rest[0]
				}
			}
			place(rest[1:], whole)
			return
		}
		width := 0
		if whole == len(sizes) { // else it depends on where the others lie
			width = narrowest(room, pool)
		}
		if whole > most || whole == most && width < poolNodes {
			most, poolNodes = whole, width
		}
	}
	place(sizes, 0)
	return most, poolNodes
}

// narrowest is how many of the rooms have n together, at least.
func narrowest(room []int, n int) int {
	width := len(room)
	for set := range uint(1) << len(room) {
		sum := 0
		for i := range room {
			if set>>i&1 == 1 {
				sum += room[i]
			}
		}
		if sum >= n {
			width = min(width, bits.OnesCount(set))
		}
	}
	return width
}

// judgeSlices judges a pod that was allocated as a whole, beside what the model
// does. It returns what ours avoids.
func (m *model) judgeSlices(d *disagreement, pod *scenario.Pod, right snapshot) (fault, error) {
	ours := d.ours.State
	held, packed := parseSet(ours.Pods[pod.Name]), parseSet(right.Pods[pod.Name])
	got, before := m.lie(ours, pod), m.lie(right, pod)
	set := m.scenario.Settings
	nodes := m.mask(m.ids(node, packed))
	// Other CPUs of the same nodes may be the budget's if these are all of the
	// affinity, and if they are not to be distributed.
	free := !set.Has(scenario.AcrossNUMA) && bits.OnesCount64(nodes) > 1 && (d.call.Any || nodes&^d.call.Near == 0)
	offered := packed
	if free {
		offered = m.on(nodes, m.free(d.before))
		if m.whole() {
			offered = m.wholeCores(offered)
		}
	}
	var judged fault
	switch {
	case !held.Equals(packed):
		judged = budgetFirst
		if !free || !held.IsSubsetOf(offered) {
			return 0, fmt.Errorf("the budget's CPUs are others than they should be, %s", packed)
		}
	case m.differ(ours, right, pod, func(c scenario.Container) bool { return c.Kind != scenario.Init }):
		judged = slicesInOrder
	}
	if judged != 0 && m.compare(got, before) <= 0 {
		return 0, fmt.Errorf("the slices lie no better (%+v) than in their order (%+v)", got, before)
	}
	if exact := !m.full() || !m.mixedCores(); exact && got.nodes > 0 {
		most, poolNodes := m.mostWhole(pod, offered)
		if got.whole != most {
			return 0, fmt.Errorf("%d slices lie on one node, %d could", got.whole, most)
		}
		if poolNodes > 0 && got.poolNodes > poolNodes && !set.Has(scenario.AcrossNUMA) && !set.Has(scenario.Uncore) {
			return 0, fmt.Errorf("the pool is on %d nodes, it could be on %d", got.poolNodes, poolNodes)
		}
	}
	init, err := m.judgeInits(ours, pod)
	return judged | init, err
}

// differ reports whether some of the pod's containers have other CPUs.
func (m *model) differ(a, b snapshot, pod *scenario.Pod, some func(scenario.Container) bool) bool {
	for _, c := range pod.Containers {
		if some(c) && a.Containers[pod.Name][c.Name] != b.Containers[pod.Name][c.Name] {
			return true
		}
	}
	return false
}

// judgeInits judges the CPUs of init containers beside what the model gives them
// where the slices are.
func (m *model) judgeInits(ours snapshot, pod *scenario.Pod) (fault, error) {
	held := parseSet(ours.Pods[pod.Name])
	running := map[string]cpuset.CPUSet{}
	for _, c := range pod.Containers {
		if n := m.exclusive(pod, c); n > 0 && c.Kind != scenario.Init {
			running[c.Name] = parseSet(ours.Containers[pod.Name][c.Name])
		}
	}
	plain, err := m.carveRest(pod, held, running)
	if err != "" {
		return 0, fmt.Errorf("the init containers: %s", err)
	}
	var judged fault
	for _, c := range pod.Containers {
		cpus, usual := parseSet(ours.Containers[pod.Name][c.Name]), plain[c.Name].cpus
		region, n := plain[c.Name].idle, m.exclusive(pod, c)
		width := len(m.ids(node, usual))
		if c.Kind == scenario.Init && n > 0 && usual.IsSubsetOf(region) && !m.scenario.Settings.Has(scenario.AcrossNUMA) {
			if m.whole() {
				region = m.wholeCores(region)
			}
			var room []int
			for _, id := range m.ids(node, region) {
				room = append(room, m.in(node, id, region).Size())
			}
			// Whole cores of several sizes may not add up there.
			loose := m.full() && m.mixedCores()
			if least := narrowest(room, n); least < width && !(loose && cpus.Equals(usual)) {
				if got := len(m.ids(node, cpus)); got > least && !loose || got >= width || !cpus.IsSubsetOf(region) || cpus.Size() != n {
					return 0, fmt.Errorf("init container %s is on %d nodes and could be on %d", c.Name, got, least)
				}
				judged |= splitInit
				continue
			}
		}
		if !cpus.Equals(usual) {
			return 0, fmt.Errorf("%s has %s and not %s", c.Name, cpus, usual)
		}
	}
	return judged, nil
}

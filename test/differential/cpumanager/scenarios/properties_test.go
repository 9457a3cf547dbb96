// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// TestProperties runs our CPU manager alone over the scenarios, on odder
// machines too, and checks after every call what must always hold.
func TestProperties(t *testing.T) {
	dir := scratch()
	defer os.RemoveAll(dir)
	count := number(countVariable, defaultCount)
	count = max(min(count, 500), count/10)
	calls, compared := 0, 0
	for seed := range uint64(count) {
		podLevel := podLevelOf(seed)
		setGates(podLevel)
		limits := limitsOf(seed, podLevel)
		limits.Crossed = seed%2 == 0
		s := scenario.Generate(seed, limits)
		first := playOurs(s, dir, false)
		calls += len(first.calls)
		for i := range first.calls {
			before := snapshot{}
			if i > 0 {
				before = first.outcomes[i-1].State
			}
			p := &property{T: t, trace: first, call: first.calls[i], before: before, after: first.outcomes[i]}
			p.check()
			if !limits.Crossed && seed%4 == 1 {
				p.followsTheRules()
				compared++
			}
			if t.Failed() {
				t.Fatalf("seed %d, crossed %t\n%s\ncall %s\nbefore %s\nafter  %s\n%s", seed, limits.Crossed, s, p.call, before, p.after.key(), p.after.Err)
			}
		}
		sameAgain(t, s, dir, first)
	}
	t.Logf("%d scenarios, %d calls, %d of them compared with the plain rules", count, calls, compared)
}

// sameAgain plays the scenario twice more: as before, and with transactions,
// in which nothing of an admission shows until it is complete.
func sameAgain(t *testing.T, s *scenario.Scenario, dir string, first *trace) {
	t.Helper()
	again, staged := playOurs(s, dir, false), playOurs(s, dir, true)
	require.Equal(t, first.calls, again.calls, "%s", s)
	require.Equal(t, first.calls, staged.calls, "with transactions\n%s", s)
	settled := snapshot{}
	for i, c := range first.calls {
		key := first.outcomes[i].key()
		require.Equal(t, key, again.outcomes[i].key(), "call %s\n%s", c, s)
		if c.Op == opStart || c.Op == opAdmitted || c.Op == opDrop {
			require.Equal(t, key, staged.outcomes[i].key(), "with transactions, call %s\n%s", c, s)
			settled = first.outcomes[i].State
			continue
		}
		require.Equal(t, settled.String(), staged.outcomes[i].State.String(), "an open admission shows, call %s\n%s", c, s)
	}
}

// property is one call and what came of it.
type property struct {
	*testing.T
	trace  *trace
	call   call
	before snapshot
	after  outcome
	// failed is set when something does not hold.
	failed bool
}

func (p *property) must(holds bool, what string, args ...any) {
	if holds {
		return
	}
	p.failed = true
	if p.T != nil {
		p.Helper()
		p.Errorf(what, args...)
	}
}

// check is what holds for every outcome.
func (p *property) check() {
	s := p.trace.scenario
	if p.call.Op == opStart && p.after.Err != "" {
		return
	}
	m, err := newModel(s, 0)
	require.NoError(p, err)
	// Which CPUs are reserved is seen from outside.
	m.reserved = m.all.Difference(parseSet(p.trace.outcomes[0].Views["allocatable"]))
	p.must(m.reserved.Size() == s.Settings.ReservedCount, "reserved are %s", m.reserved)
	state := p.after.State
	seen := cpuset.New()
	for _, pod := range podsOf(state) {
		held := p.pod(m, pod)
		p.must(held.Intersection(seen).IsEmpty(), "%s holds CPUs of another pod", pod)
		p.must(held.Intersection(m.reserved).IsEmpty(), "%s holds reserved CPUs", pod)
		p.must(held.IsSubsetOf(m.all), "%s holds CPUs that the machine has not", pod)
		seen = seen.Union(held)
	}
	left := m.all.Difference(seen)
	if m.strict() {
		left = left.Difference(m.reserved)
	}
	p.must(state.Default == left.String(), "the node shared pool is not what is left, %s", left)
	p.must(!left.IsEmpty(), "the node shared pool is empty")
	if p.call.Again || p.call.Op == opStart && p.call.Event >= 0 {
		p.must(state.String() == p.before.String(), "a restart changes something")
		p.must(p.after.Err == "", "a running pod is refused")
	}
	if p.call.Op == opAllocate && p.after.Err == "" && !p.call.Again {
		p.placed(m)
	}
	if p.after.Hints != nil {
		for _, h := range *p.after.Hints {
			p.must(h.Nodes != 0 && h.Nodes&^m.mask(m.ids(node, m.all)) == 0, "a hint for nodes without CPUs")
		}
	}
}

func podsOf(s snapshot) []string {
	names := map[string]bool{}
	for pod := range s.Pods {
		names[pod] = true
	}
	for pod := range s.Containers {
		names[pod] = true
	}
	return sortedKeys(names)
}

// pod checks what a pod holds, and returns it.
func (p *property) pod(m *model, name string) cpuset.CPUSet {
	pod := podOf(m.scenario, name)
	text, whole := p.after.State.Pods[name]
	held := parseSet(text)
	if whole {
		p.must(held.Size() == m.podCPUs(pod), "%s has %d CPUs, not its budget", name, held.Size())
	}
	running := cpuset.New()
	union := held
	for _, c := range pod.Containers {
		text, ok := p.after.State.Containers[name][c.Name]
		if !ok {
			p.must(!whole, "%s/%s has nothing", name, c.Name)
			continue
		}
		cpus, n := parseSet(text), m.exclusive(pod, c)
		union = union.Union(cpus)
		if whole {
			p.must(cpus.IsSubsetOf(held) && !cpus.IsEmpty(), "%s/%s is not within its pod", name, c.Name)
		}
		if m.full() {
			p.must(m.wholeCores(cpus).Equals(cpus), "%s/%s has half cores", name, c.Name)
		}
		if n == 0 {
			p.must(whole, "%s/%s asks for nothing and has CPUs of its own", name, c.Name)
			continue
		}
		p.must(cpus.Size() == n, "%s/%s has %d CPUs, not %d", name, c.Name, cpus.Size(), n)
		if c.Kind != scenario.Init {
			p.must(cpus.Intersection(running).IsEmpty(), "%s/%s has CPUs of a container that runs", name, c.Name)
			running = running.Union(cpus)
		} else {
			before := cpuset.New()
			for _, other := range pod.Containers {
				if other.Name == c.Name {
					break
				}
				if other.Kind == scenario.Sidecar && m.exclusive(pod, other) > 0 {
					before = before.Union(parseSet(p.after.State.Containers[name][other.Name]))
				}
			}
			p.must(cpus.Intersection(before).IsEmpty(), "%s/%s has CPUs of a sidecar that runs", name, c.Name)
		}
	}
	if whole && m.full() {
		p.must(m.wholeCores(held).Equals(held), "%s has half cores", name)
	}
	return union
}

// placed checks where a container's CPUs were taken.
func (p *property) placed(m *model) {
	s, set := p.trace.scenario, p.trace.scenario.Settings
	pod := podOf(s, p.call.Pod)
	if m.exclusive(pod, containerOf(pod, p.call.Container)) == 0 {
		return
	}
	cpus := parseSet(p.after.State.Containers[pod.Name][p.call.Container])
	mine := m.reusable(pod, p.call.Container, p.before.Containers[pod.Name])
	free := m.free(p.before).Union(mine)
	p.must(cpus.IsSubsetOf(free), "CPUs that were not free")
	n, near := cpus.Size(), m.all
	if !p.call.Any {
		near = m.on(p.call.Near, m.all)
		if !m.full() {
			p.must(cpus.Intersection(near).Size() == min(n, free.Intersection(near).Size()), "CPUs elsewhere while the affinity's nodes have some")
			if set.Has(scenario.BySocket) {
				wide := cpuset.New()
				for _, id := range m.ids(socket, near) {
					wide = wide.Union(m.in(socket, id, m.all))
				}
				p.must(cpus.Intersection(wide).Size() == min(n, free.Intersection(wide).Size()), "CPUs elsewhere while the affinity's sockets have some")
			}
		}
	}
	if !m.full() {
		p.must(cpus.Intersection(mine).Intersection(near).Size() == min(cpus.Intersection(near).Size(), mine.Intersection(near).Size()),
			"CPUs of ended init containers are not reused first")
	}
	smallest := m.all.Size()
	for _, of := range []unit{node, socket} {
		for _, id := range m.ids(of, m.all) {
			smallest = min(smallest, m.in(of, id, m.all).Size())
		}
	}
	if n >= smallest || m.peak(pod, p.call.Container) > n || !mine.IsEmpty() {
		return // whole nodes come first, and so do the pod's other phases
	}
	// What one unit of the affinity's has room for is not split.
	if near = near.Intersection(free); near.Size() < n {
		return
	}
	if set.Has(scenario.Uncore) {
		fits := false
		for _, id := range m.ids(cache, near) {
			room := m.in(cache, id, near)
			fits = fits || (!m.full() && room.Size() >= n || m.full() && m.addsUp(room, n))
		}
		p.must(!fits || len(m.ids(cache, cpus)) == 1, "several caches while one has room")
	}
	if sockets := m.ids(socket, near); set.Has(scenario.AcrossCores) && len(sockets) == 1 {
		p.must(len(m.ids(core, cpus)) == min(n, len(m.ids(core, near))), "several threads of a core while others have some")
	}
}

// followsTheRules compares with the model, which was written from the rules.
func (p *property) followsTheRules() {
	d := &disagreement{trace: p.trace, call: p.call, before: p.before, ours: p.after, theirs: p.after}
	if p.call.Op == opStart && p.call.Event >= 0 {
		d.index = 1
	}
	if _, err := oursIsRight(d); err != nil {
		p.Error(err)
	}
}

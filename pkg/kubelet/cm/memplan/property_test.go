// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

func randomMachine(t *testing.T, r *rand.Rand) Machine {
	var specs []NodeSpec
	for id := range 1 + r.IntN(6) {
		if r.IntN(8) == 0 {
			continue // IDs are not dense
		}
		spec := NodeSpec{ID: id, NoCPUs: r.IntN(6) == 0, Memory: uint64(r.IntN(4)) * 16, HugePages: map[string]uint64{}, Reserved: map[string]uint64{}}
		if spec.Memory > 0 {
			spec.Reserved[Ordinary] = uint64(r.IntN(3))
			if r.IntN(2) == 0 {
				spec.HugePages["hugepages-2Mi"] = uint64(r.IntN(9))
			}
		}
		specs = append(specs, spec)
	}
	m, err := NewMachine(specs)
	require.NoError(t, err)
	return m
}

func randomPod(r *rand.Rand, uid string) podplan.Pod {
	pod := podplan.Pod{UID: uid, Name: uid, Managed: r.IntN(20) > 0}
	request := func() podplan.Memory {
		m := podplan.Memory{Ordinary: uint64(1 + r.IntN(12))}
		if r.IntN(3) == 0 {
			m["hugepages-2Mi"] = uint64(1 + r.IntN(4))
		}
		if r.IntN(10) == 0 {
			m[Ordinary] += 40
		}
		return m
	}
	for i := range 1 + r.IntN(4) {
		c := podplan.Container{Name: fmt.Sprint("c", i), Kind: podplan.Kind(r.IntN(3)), Guaranteed: r.IntN(2) == 0}
		if c.Guaranteed || r.IntN(2) == 0 {
			c.Memory = request()
		}
		pod.Containers = append(pod.Containers, c)
	}
	// Init containers come first.
	slices.SortStableFunc(pod.Containers, func(a, b podplan.Container) int {
		return min(1, int(a.Kind)/2) - min(1, int(b.Kind)/2)
	})
	if r.IntN(2) == 0 {
		pod.Budget = &podplan.Budget{Memory: request()}
		for _, c := range pod.Containers {
			for name, size := range c.Memory {
				if r.IntN(4) > 0 {
					pod.Budget.Memory[name] += size
				}
			}
		}
	}
	return pod
}

// admit admits the pod as a topology manager with a random decision would.
func admit(h Host, pod podplan.Pod, whole bool, r *rand.Rand) (Host, error) {
	decide := func(resources []numa.Resource) numa.Hint {
		if len(resources) > 0 && len(resources[0].Hints) > 0 && r.IntN(4) > 0 {
			return resources[0].Hints[r.IntN(len(resources[0].Hints))]
		}
		if r.IntN(2) == 0 {
			return numa.Hint{Nodes: numa.SetFromBits(1 + r.Uint64N(1<<7)), Preferred: r.IntN(2) == 0}
		}
		return numa.Hint{Any: true, Preferred: r.IntN(2) == 0}
	}
	if whole {
		record, err := h.PlanPod(pod, decide(h.PodHints(pod)), randomNear(pod, r))
		return h.With(pod.UID, record), err
	}
	for _, c := range pod.Containers {
		record, err := h.PlanContainer(pod, c.Name, decide(h.ContainerHints(pod, c.Name)))
		if err != nil {
			return h, err
		}
		h = h.With(pod.UID, record)
	}
	return h, nil
}

func randomNear(pod podplan.Pod, r *rand.Rand) Near {
	near := Near{}
	for _, c := range pod.Containers {
		if r.IntN(4) > 0 {
			near[c.Name] = numa.SetFromBits(r.Uint64N(1<<7) & r.Uint64N(1<<7))
		}
	}
	return near
}

// TestProperties admits, restarts and removes thousands of random pods.
func TestProperties(t *testing.T) {
	admitted, refused := 0, 0
	for seed := range 400 {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		h := NewHost(randomMachine(t, r), Records{})
		pods, whole := map[string]podplan.Pod{}, map[string]bool{}
		for step := range 30 {
			uid := fmt.Sprint("p", step)
			pod := randomPod(r, uid)
			asWhole := pod.Budget != nil && r.IntN(3) > 0
			next, err := admit(h, pod, asWhole, r)
			if err != nil {
				refused++
				var refusal *Refusal
				var empty *podplan.EmptyPoolError
				var over *podplan.OverBudgetError
				require.True(t, errors.As(err, &refusal) || errors.As(err, &empty) || errors.As(err, &over), "%v", err)
				continue
			}
			admitted++
			h = next
			pods[uid], whole[uid] = pod, asWhole
			checkHost(t, h)
			checkRecord(t, h, pod, asWhole)

			if r.IntN(3) == 0 {
				for _, gone := range h.Records().uids {
					if r.IntN(3) == 0 {
						h = h.With(gone, PodRecord{})
						delete(pods, gone)
					}
				}
				checkHost(t, h)
			}
			// A restart: all pods are admitted again, with other decisions of
			// the topology manager, and nothing changes.
			for uid, pod := range pods {
				again, err := admit(h, pod, whole[uid], r)
				require.NoError(t, err)
				require.True(t, again.Records().Pod(uid).Equal(h.Records().Pod(uid)), "%v\n%v", again.Records().Pod(uid), h.Records().Pod(uid))
				if nodes := h.Records().Pod(uid).Nodes(); !nodes.IsEmpty() {
					for _, resource := range h.PodHints(pod) {
						require.Equal(t, []numa.Hint{{Nodes: nodes, Preferred: true}}, resource.Hints)
					}
				}
			}
		}
	}
	t.Logf("%d pods admitted, %d refused", admitted, refused)
	require.Greater(t, admitted, 3000)
	require.Greater(t, refused, 1000)
}

// checkHost recomputes by hand what must hold of any host.
func checkHost(t *testing.T, h Host) {
	t.Helper()
	counts := map[int]int{}
	var charged, used uint64
	for uid, pod := range h.Records().All() {
		require.NoError(t, h.Machine().Check(uid, pod))
		for b := range pod.Charges() {
			charged += b.Size
			for id := range b.Nodes.All() {
				counts[id]++
			}
		}
	}
	for n := range h.Nodes() {
		require.Equal(t, counts[n.ID], n.Assignments)
		for _, r := range n.Resources {
			require.Zero(t, r.Missing)
			require.Equal(t, r.Allocatable, r.Used+r.Free)
			used += r.Used
		}
	}
	require.Equal(t, charged, used)
	for _, resource := range []string{Ordinary, "hugepages-2Mi"} {
		split := false
		for _, pod := range h.Records().All() {
			_, ok := pod.parts(resource)
			split = split || ok
		}
		if split {
			continue // TestNobodyStarves is about these
		}
		require.True(t, naivelySafe(h, chargesByHand(h, resource), resource), "%s: %v", resource, h.Records())
	}
}

func chargesByHand(h Host, resource string) []charge {
	var list []charge
	for _, pod := range h.Records().All() {
		for b := range pod.Charges() {
			if b.Resource == resource && b.Size > 0 {
				list = append(list, charge{b.Nodes, b.Size})
			}
		}
	}
	return list
}

// naivelySafe tries for each charge all parts of its nodes, for one that all
// who may come there cannot exhaust.
func naivelySafe(h Host, charges []charge, resource string) bool {
	for _, c := range charges {
		safe := false
		for part := range c.nodes.Subsets() {
			var capacity, may uint64
			for id := range part.All() {
				table, _ := h.Machine().Capacity(id, resource)
				capacity += table.Allocatable
			}
			for _, o := range charges {
				if !o.nodes.Intersection(part).IsEmpty() {
					may += o.size
				}
			}
			safe = safe || may <= capacity
		}
		if !safe {
			return false
		}
	}
	return true
}

// checkRecord checks that the pod has what it asks for.
func checkRecord(t *testing.T, h Host, pod podplan.Pod, whole bool) {
	t.Helper()
	record := h.Records().Pod(pod.UID)
	held := podplan.Memory{}
	masks := map[numa.Set]bool{}
	for b := range record.Charges() {
		held[b.Resource] += b.Size
		masks[b.Nodes] = true
	}
	if whole {
		require.Equal(t, pod.Managed, record.Whole())
		for name, size := range pod.BudgetMemory() {
			require.Equal(t, size, held[name])
		}
		return
	}
	peak := podplan.Pod{Managed: pod.Managed}
	for _, c := range pod.Containers {
		for name, size := range pod.ExclusiveMemory(c) {
			if c.Kind != podplan.StandardInit {
				i := slices.IndexFunc(record.Containers[c.Name], func(b Block) bool { return b.Resource == name })
				require.GreaterOrEqual(t, i, 0)
				require.Equal(t, size, record.Containers[c.Name][i].Size)
			}
		}
		peak.Containers = append(peak.Containers, podplan.Container{Name: c.Name, Kind: c.Kind, Memory: pod.ExclusiveMemory(c)})
	}
	if len(masks) == 1 {
		// Everything on the same nodes: exactly what the pod ever needs at once.
		for name, size := range peak.PodMemory() {
			require.Equal(t, size, held[name], "%v %v", pod, record)
		}
	}
}

// TestHintsAreComplete compares the hints with a list made by trying all sets.
func TestHintsAreComplete(t *testing.T) {
	for seed := range 600 {
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		h := NewHost(randomMachine(t, r), Records{})
		for step := range 8 {
			pod := randomPod(r, fmt.Sprint("p", step))
			pod.Budget, pod.Managed = nil, true
			for i := range pod.Containers {
				pod.Containers[i].Kind = podplan.App
			}
			c := pod.Containers[0]
			if request := pod.ExclusiveMemory(c); len(request) > 0 {
				want := hintsByHand(h, request)
				got := slices.Clone(h.query(request, tenant{}).hints())
				order := func(a, b numa.Hint) int { return compareMasks(a.Nodes, b.Nodes) }
				slices.SortFunc(got, order)
				slices.SortFunc(want, order)
				require.True(t, slices.Equal(want, got), "request %v on %v\nwant %v\ngot %v", request, h.Records(), want, got)
			}
			if next, err := admit(h, pod, false, r); err == nil {
				h = next
			}
		}
	}
}

func hintsByHand(h Host, request podplan.Memory) []numa.Hint {
	capable, local := h.capable(sortedNames(request)), numa.Set{}
	for id := range capable.All() {
		if h.machine.withCPUs.Contains(id) {
			local = local.Union(numa.SetOf(id))
		}
	}
	idle := func(set numa.Set) bool {
		for name, size := range request {
			var allocatable uint64
			for id := range set.All() {
				capacity, _ := h.Machine().Capacity(id, name)
				allocatable += capacity.Allocatable
			}
			if allocatable < size {
				return false
			}
		}
		return true
	}
	room := func(set numa.Set) bool {
		for name, size := range request {
			if !naivelySafe(h, append(chargesByHand(h, name), charge{set, size}), name) {
				return false
			}
		}
		return true
	}
	among, narrowest := numa.Set{}, 0
	for _, nodes := range []numa.Set{local, capable} {
		for set := range nodes.Subsets() {
			if narrowest == 0 && idle(set) {
				narrowest, among = set.Size(), nodes
			}
		}
	}
	for _, nodes := range []numa.Set{local, capable} {
		var list []numa.Hint
		for set := range nodes.Subsets() {
			if room(set) {
				list = append(list, numa.Hint{Nodes: set, Preferred: set.Size() == narrowest && set.IsSubsetOf(among)})
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// TestManyNodes: beyond a dozen nodes the list is bounded, what is preferred is
// right, and what fits gets a hint.
func TestManyNodes(t *testing.T) {
	for _, count := range []int{13, 20, 36, 64} {
		specs := make([]NodeSpec, count)
		for id := range specs {
			specs[id] = NodeSpec{ID: id, Memory: 16, HugePages: map[string]uint64{"hugepages-2Mi": uint64(id % 5)}}
		}
		m, err := NewMachine(specs)
		require.NoError(t, err)
		h := NewHost(m, Records{})
		for _, request := range []podplan.Memory{
			{Ordinary: 10}, {Ordinary: 30}, {Ordinary: 80}, {Ordinary: 100, "hugepages-2Mi": 12},
			{Ordinary: uint64(count) * 13}, {"hugepages-2Mi": 17}, {Ordinary: uint64(count) * 15},
		} {
			q := h.query(request, tenant{})
			start := time.Now()
			hints := q.hints()
			t.Logf("%d nodes, %v: %d hints in %v", count, request, len(hints), time.Since(start))
			narrowest, _ := q.narrowest()
			if narrowest == 0 {
				require.Empty(t, hints)
				continue
			}
			require.NotEmpty(t, hints, "%v", request)
			require.Less(t, len(hints), 200000)
			preferred := 0
			for _, hint := range hints {
				if !q.fits(hint.Nodes) || hint.Nodes.Size() < narrowest || hint.Preferred != (hint.Nodes.Size() == narrowest) {
					t.Fatalf("%v, which needs %d nodes, got the hint %v", request, narrowest, hint)
				}
				if hint.Preferred {
					preferred++
				}
			}
			require.Positive(t, preferred)
		}
	}
}

func BenchmarkHints20Nodes(b *testing.B) {
	specs := make([]NodeSpec, 20)
	for id := range specs {
		specs[id] = NodeSpec{ID: id, Memory: 16, HugePages: map[string]uint64{"hugepages-2Mi": 4}}
	}
	m, _ := NewMachine(specs)
	for _, size := range []uint64{1, 30, 50, 70, 130} {
		b.Run(fmt.Sprint("memory=", size), func(b *testing.B) {
			for b.Loop() {
				NewHost(m, Records{}).query(podplan.Memory{Ordinary: size, "hugepages-2Mi": 1}, tenant{}).hints()
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// randomTopology is a machine of any shape: sockets, nodes and cores of unequal
// size, sparse IDs, siblings far apart.
func randomTopology(r *rand.Rand) *Topology {
	ids := r.Perm(200)
	var cpus []CPU
	core, nodeID := 0, r.IntN(3)
	for socket := range 1 + r.IntN(3) {
		for range 1 + r.IntN(3) {
			nodeID += 1 + r.IntN(5)
			for range 1 + r.IntN(5) {
				core++
				for range 1 + r.IntN(3) {
					cpus = append(cpus, CPU{ID: ids[len(cpus)], Core: core, Socket: socket, Node: nodeID, Cache: core / 3})
				}
			}
		}
	}
	t, err := NewTopology(cpus)
	if err != nil {
		panic(err)
	}
	return t
}

func randomSubset(r *rand.Rand, s Set) Set {
	var ids []int
	for id := range s.All() {
		if r.IntN(3) > 0 {
			ids = append(ids, id)
		}
	}
	return NewSet(ids...)
}

func TestTakeStaysWithinTheOffer(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		topology := randomTopology(r)
		from := randomSubset(r, topology.All())
		n := r.IntN(from.Size() + 2)

		cpus, err := topology.Take(from, n)
		if n > from.Size() {
			require.Error(t, err)
		} else {
			require.NoError(t, err)
			require.Equal(t, n, cpus.Size())
			require.True(t, cpus.IsSubsetOf(from))
		}

		whole, err := topology.TakeWholeCores(from, n)
		if err != nil {
			require.False(t, bruteForceAddsUp(topology, from, n), "%d of %s", n, from)
			continue
		}
		require.Equal(t, n, whole.Size())
		require.True(t, whole.IsSubsetOf(from))
		require.True(t, topology.Siblings(whole).Equals(whole), "a core is split")
	}
}

// bruteForceAddsUp counts totals of whole cores the slow way.
func bruteForceAddsUp(t *Topology, from Set, n int) bool {
	totals := map[int]bool{0: true}
	for _, core := range t.cores.units {
		if core.cpus.IsSubsetOf(from) {
			for total := range clone(totals) {
				totals[total+core.cpus.Size()] = true
			}
		}
	}
	return totals[n]
}

func clone(m map[int]bool) map[int]bool {
	c := make(map[int]bool, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// TestRandomPods admits, admits again and removes pods on random machines and
// checks after every step what must always hold.
func TestRandomPods(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	admitted, refused := 0, 0
	for machine := range 150 {
		topology := randomTopology(r)
		count := 1 + r.IntN(min(3, topology.All().Size()))
		strict := machine%2 == 0 && count < topology.All().Size()
		options := randomOptions(r, topology)
		options.StrictCPUReservation = strict
		node, err := NewNode(topology, Set{}, count, options)
		require.NoError(t, err)
		var state State
		pods := map[string]podplan.Pod{}
		for step := range 60 {
			if uids := state.PodUIDs(); len(uids) > 0 && r.IntN(3) == 0 {
				uid := uids[r.IntN(len(uids))]
				state = state.Without(uid)
				delete(pods, uid)
				continue
			}
			pod := randomPod(r, fmt.Sprintf("p%d", step))
			byContainer := r.IntN(2) == 0
			affinity := numa.Hint{Any: r.IntN(2) == 0, Nodes: randomNodes(r, topology.Nodes())}
			record, err := admit(node, state, pod, affinity, byContainer)
			if err != nil {
				refused++
				continue
			}
			admitted++
			state = state.With(pod.UID, record)
			pods[pod.UID] = pod
			check(t, node, state, pods)
			for _, again := range []bool{byContainer, !byContainer} {
				if pod.Budget == nil || record.Pod.IsEmpty() {
					again = true
				}
				repeated, err := admit(node, state, pod, numa.Hint{Nodes: randomNodes(r, topology.Nodes())}, again)
				require.NoError(t, err)
				require.True(t, repeated.Equals(record), "a restart moves %s: %v, %v", pod.UID, record, repeated)
			}
		}
	}
	require.Greater(t, min(admitted, refused), 500)
}

// randomOptions are options that may be set together on the machine.
func randomOptions(r *rand.Rand, t *Topology) Options {
	o := Options{
		FullPCPUsOnly:        r.IntN(3) == 0,
		DistributeAcrossNUMA: r.IntN(3) == 0,
		AlignBySocket:        r.IntN(3) == 0 && len(t.sockets.units) <= len(t.nodes.units),
	}
	if !o.DistributeAcrossNUMA {
		o.PreferUncoreCache = r.IntN(3) == 0
		o.DistributeAcrossCores = r.IntN(3) == 0 && !o.FullPCPUsOnly && !o.PreferUncoreCache
	}
	return o
}

func check(t *testing.T, node *Node, s State, pods map[string]podplan.Pod) {
	t.Helper()
	topology := node.Topology()
	var seen Set
	for _, uid := range s.PodUIDs() {
		record, pod := s.Record(uid), pods[uid]
		cpus := record.CPUs()
		require.False(t, cpus.Overlaps(seen), "two pods hold a CPU")
		require.False(t, cpus.Overlaps(node.Reserved()), "a pod holds a reserved CPU")
		require.True(t, cpus.IsSubsetOf(topology.All()))
		seen = seen.Union(cpus)
		var running Set
		for _, c := range pod.Containers {
			own, held := record.Containers[c.Name]
			count := pod.ExclusiveCPUs(c)
			if !record.Pod.IsEmpty() {
				require.Equal(t, pod.BudgetCPUs(), record.Pod.Size())
				require.True(t, held && !own.IsEmpty() && own.IsSubsetOf(record.Pod), "%s/%s", uid, c.Name)
			}
			if count == 0 {
				continue
			}
			require.Equal(t, count, own.Size())
			if node.options.FullPCPUsOnly {
				require.True(t, topology.Siblings(own).Equals(own), "a slice splits a core")
			}
			if c.Kind.LongRunning() {
				require.False(t, own.Overlaps(running), "two containers hold a CPU at the same time")
				running = running.Union(own)
			}
		}
	}
	require.False(t, node.Shared(s).IsEmpty())
	require.False(t, node.Shared(s).Overlaps(seen))
}

func randomPod(r *rand.Rand, uid string) podplan.Pod {
	pod := podplan.Pod{UID: uid, Name: uid, Managed: true}
	if r.IntN(2) == 0 {
		pod.Budget = &podplan.Budget{MilliCPU: 1000 * (1 + r.Int64N(8))}
	}
	kinds := []podplan.Kind{podplan.StandardInit, podplan.Sidecar}
	for i := range r.IntN(4) {
		pod.Containers = append(pod.Containers, randomContainer(r, fmt.Sprintf("i%d", i), kinds[r.IntN(2)]))
	}
	for i := range 1 + r.IntN(3) {
		pod.Containers = append(pod.Containers, randomContainer(r, fmt.Sprintf("a%d", i), podplan.App))
	}
	return pod
}

func randomContainer(r *rand.Rand, name string, kind podplan.Kind) podplan.Container {
	c := podplan.Container{Name: name, Kind: kind}
	if r.IntN(3) > 0 {
		c.Guaranteed, c.MilliCPU = true, 1000*r.Int64N(4)
	}
	return c
}

func randomNodes(r *rand.Rand, nodes numa.Set) numa.Set {
	return numa.SetFromBits(nodes.Bits() & r.Uint64())
}

func FuzzSet(f *testing.F) {
	f.Add([]byte{0, 1, 63, 64}, []byte{65, 255})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := setOf(a), setOf(b)
		require.Equal(t, x.Size()+y.Size(), x.Union(y).Size()+x.Intersection(y).Size())
		require.True(t, x.Difference(y).Union(x.Intersection(y)).Equals(x))
		require.Equal(t, !x.Intersection(y).IsEmpty(), x.Overlaps(y))
		require.Equal(t, x.Difference(y).IsEmpty(), x.IsSubsetOf(y))
		require.True(t, NewSet(x.List()...).Equals(x))
	})
}

func setOf(data []byte) Set {
	var ids []int
	for _, b := range data {
		ids = append(ids, int(b)*3)
	}
	return NewSet(ids...)
}

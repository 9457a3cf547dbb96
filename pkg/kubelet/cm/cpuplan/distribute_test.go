// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// machineOf has the given cores, by their threads, on each node. CPUs are
// numbered core by core; each socket has nodesPerSocket nodes.
func machineOf(nodesPerSocket int, nodes ...[]int) *Topology {
	var cpus []CPU
	core := 0
	for node, cores := range nodes {
		for _, threads := range cores {
			for range threads {
				cpus = append(cpus, CPU{ID: len(cpus), Core: core, Node: node, Socket: node / nodesPerSocket, Cache: node})
			}
			core++
		}
	}
	t, err := NewTopology(cpus)
	if err != nil {
		panic(err)
	}
	return t
}

// equalMachine has nodes of equal size.
func equalMachine(nodes, nodesPerSocket, cores, threads int) *Topology {
	list := make([][]int, nodes)
	for i := range list {
		list[i] = repeat(threads, cores)
	}
	return machineOf(nodesPerSocket, list...)
}

func repeat(threads, cores int) []int {
	list := make([]int, cores)
	for i := range list {
		list[i] = threads
	}
	return list
}

// counts is how many of the CPUs lie on each node.
func counts(t *Topology, cpus Set) []int {
	list := make([]int, len(t.nodes.units))
	for i, u := range t.nodes.units {
		list[i] = u.cpus.Intersection(cpus).Size()
	}
	return list
}

// leave is so many CPUs of each node, those with the lowest IDs.
func leave(t *Topology, each ...int) Set {
	var from Set
	for i, u := range t.nodes.units {
		from = from.Union(NewSet(u.cpus.List()[:each[i]]...))
	}
	return from
}

func (t *Topology) taker(wholeCores bool) func(Set, int) (Set, error) {
	if wholeCores {
		return t.TakeWholeCores
	}
	return t.Take
}

func TestDistributeCases(t *testing.T) {
	all := numa.SetOf(0, 1, 2, 3)
	for name, c := range map[string]struct {
		machine *Topology
		free    []int // on each node; nil is everything
		n       int
		how     Distribution
		want    []int // from each node
	}{
		"one node is enough": {
			machine: equalMachine(4, 2, 8, 2), n: 16, want: []int{16, 0, 0, 0}},
		"two nodes in equal parts": {
			machine: equalMachine(4, 2, 8, 2), n: 18, want: []int{9, 9, 0, 0}},
		"a remainder": {
			machine: equalMachine(3, 3, 8, 2), n: 34, want: []int{12, 11, 11}},
		"a remainder in whole cores": {
			machine: equalMachine(3, 3, 8, 2), n: 34, how: Distribution{WholeCores: true}, want: []int{12, 12, 10}},
		"the remainder comes from where most is free": {
			machine: equalMachine(3, 3, 8, 2), free: []int{11, 16, 11}, n: 34, want: []int{11, 12, 11}},
		"nodes that leave the others balanced": {
			machine: equalMachine(4, 4, 8, 2), free: []int{10, 16, 10, 16}, n: 18, want: []int{0, 9, 0, 9}},
		"no equal parts, so packed": {
			machine: equalMachine(2, 1, 8, 2), free: []int{2, 16}, n: 17, want: []int{1, 16}},

		// kubernetes/kubernetes issue 139430.
		"a hint of four nodes is used in full": {
			machine: equalMachine(4, 2, 32, 2), n: 176, how: Distribution{Nodes: all}, want: []int{44, 44, 44, 44}},
		"where without it three are enough": {
			machine: equalMachine(4, 2, 32, 2), n: 176, want: []int{59, 59, 58, 0}},
		"nodes outside the hint are not used": {
			machine: equalMachine(4, 2, 4, 2), n: 10, how: Distribution{Nodes: numa.SetOf(1, 3)}, want: []int{0, 5, 0, 5}},
		"a node that has less gives all": {
			machine: equalMachine(4, 2, 32, 2), free: []int{10, 64, 64, 64}, n: 176, how: Distribution{Nodes: all}, want: []int{10, 56, 55, 55}},
		"two nodes that have less": {
			machine: equalMachine(4, 2, 32, 2), free: []int{20, 64, 40, 64}, n: 176, how: Distribution{Nodes: all}, want: []int{20, 58, 40, 58}},
		"a node of the hint without free CPUs": {
			machine: equalMachine(4, 2, 32, 2), free: []int{0, 64, 64, 64}, n: 90, how: Distribution{Nodes: all}, want: []int{0, 30, 30, 30}},
		"fewer CPUs than nodes": {
			machine: equalMachine(4, 2, 4, 2), free: []int{8, 2, 2, 4}, n: 2, how: Distribution{Nodes: all}, want: []int{1, 0, 0, 1}},
		"fewer cores than nodes": {
			machine: equalMachine(4, 2, 4, 2), n: 6, how: Distribution{Nodes: all, WholeCores: true}, want: []int{2, 2, 2, 0}},
		"whole cores of a hint": {
			machine: equalMachine(4, 2, 32, 2), free: []int{10, 64, 64, 64}, n: 176, how: Distribution{Nodes: all, WholeCores: true}, want: []int{10, 56, 56, 54}},

		// kubernetes/kubernetes issue 140730; the kubelet never returns.
		"a subset with CPUs but no cores for the rest": {
			machine: equalMachine(4, 2, 4, 2), free: []int{7, 7, 6, 4}, n: 20, how: Distribution{WholeCores: true}, want: []int{6, 4, 6, 4}},
		"the same with all that is whole": {
			machine: equalMachine(4, 2, 3, 2), free: []int{5, 5, 4, 2}, n: 14, how: Distribution{WholeCores: true}, want: []int{4, 4, 4, 2}},
		// All that is left, which no number of nodes can give in equal parts.
		"all whole cores": {
			machine: equalMachine(4, 2, 4, 2), free: []int{7, 7, 6, 4}, n: 22, how: Distribution{WholeCores: true}, want: []int{6, 6, 6, 4}},

		// The kubelet's combination of 4 of 5 nodes is overwritten by the next.
		"four of five nodes": {
			machine: equalMachine(5, 5, 1, 2), n: 8, want: []int{2, 2, 2, 2, 0}},

		// kubernetes/kubernetes issue 114642.
		"one socket": {
			machine: equalMachine(4, 2, 4, 2), free: []int{5, 8, 7, 2}, n: 12, how: Distribution{BySocket: true}, want: []int{5, 7, 0, 0}},
		"not asked for one socket": {
			machine: equalMachine(4, 2, 4, 2), free: []int{5, 8, 7, 2}, n: 12, want: []int{0, 6, 6, 0}},

		// The kubelet's average node of 8 says that 10 CPUs need two nodes.
		"nodes of unequal size": {
			machine: machineOf(1, repeat(2, 2), repeat(2, 6)), n: 10, want: []int{0, 10}},

		// Node 0 has P cores and E cores, node 1 has one sibling offline.
		"cores of unequal size": {
			machine: machineOf(2, []int{2, 2, 1, 1}, []int{2, 2, 1}), n: 7, how: Distribution{WholeCores: true}, want: []int{4, 3}},
		"an odd number from the node with an odd core": {
			machine: machineOf(2, repeat(2, 4), []int{2, 2, 2, 1}), n: 3, how: Distribution{WholeCores: true}, want: []int{0, 3}},
		"parts that cores do not add up to": {
			machine: machineOf(2, repeat(4, 2), []int{1, 1, 4}), n: 10, how: Distribution{WholeCores: true}, want: []int{4, 6}},
		"unequal cores of a hint": {
			machine: machineOf(4, repeat(2, 4), []int{1}, repeat(1, 8), repeat(2, 4)), n: 16, how: Distribution{Nodes: all, WholeCores: true}, want: []int{6, 1, 5, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			from := c.machine.All()
			if c.free != nil {
				from = leave(c.machine, c.free...)
			}
			got, err := c.machine.Distribute(from, c.n, c.how, c.machine.taker(c.how.WholeCores))
			require.NoError(t, err)
			require.Equal(t, c.want, counts(c.machine, got))
			require.True(t, got.IsSubsetOf(from))
			if c.how.WholeCores {
				require.True(t, c.machine.Siblings(got).Equals(got))
			}
		})
	}
}

func TestDistributeRefuses(t *testing.T) {
	m := equalMachine(2, 1, 4, 2)
	for name, c := range map[string]struct {
		from    Set
		n       int
		how     Distribution
		offered int
	}{
		"more than there is":          {m.All(), 17, Distribution{}, 16},
		"more than the hint has":      {m.All(), 9, Distribution{Nodes: numa.SetOf(1)}, 8},
		"more than whole cores":       {leave(m, 7, 7), 14, Distribution{WholeCores: true}, 12},
		"half a core":                 {m.All(), 3, Distribution{WholeCores: true}, 16},
		"a hint without any CPU":      {m.All(), 1, Distribution{Nodes: numa.SetOf(5)}, 0},
		"CPUs that are not there":     {NewSet(100, 101), 1, Distribution{}, 0},
		"an absurd number":            {m.All(), 1 << 60, Distribution{WholeCores: true}, 16},
		"half a core on a hint":       {m.All(), 1, Distribution{WholeCores: true, Nodes: numa.SetOf(0, 1)}, 16},
		"half a core, one socket too": {m.All(), 5, Distribution{WholeCores: true, BySocket: true}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Distribute(c.from, c.n, c.how, m.taker(c.how.WholeCores))
			var notEnough *NotEnoughError
			require.ErrorAs(t, err, &notEnough)
			require.Equal(t, c.n, notEnough.Requested)
			require.Equal(t, c.offered, notEnough.Offered.Size())
		})
	}
	none, err := m.Distribute(m.All(), 0, Distribution{}, m.Take)
	require.NoError(t, err)
	require.True(t, none.IsEmpty())
}

// TestDistributeSurvivesItsTaker has one node, or all, picked wrongly.
func TestDistributeSurvivesItsTaker(t *testing.T) {
	m := equalMachine(2, 1, 4, 2)
	for name, bad := range map[string]func(Set, int) (Set, error){
		"an error": func(Set, int) (Set, error) { return Set{}, fmt.Errorf("no") },
		"too few":  func(from Set, n int) (Set, error) { return m.Take(from, n-1) },
		"others":   func(_ Set, n int) (Set, error) { return m.Take(m.All().Difference(leave(m, 6, 6)), n) },
	} {
		t.Run(name, func(t *testing.T) {
			inNode := func(from Set, n int) (Set, error) {
				if n == 4 {
					return bad(from, n)
				}
				return m.Take(from, n)
			}
			got, err := m.Distribute(leave(m, 6, 6), 8, Distribution{}, inNode)
			require.NoError(t, err)
			require.Equal(t, 8, got.Size())
			require.True(t, got.IsSubsetOf(leave(m, 6, 6)))
			_, err = m.Distribute(leave(m, 6, 6), 8, Distribution{}, bad)
			require.Error(t, err)
		})
	}
}

func BenchmarkDistribute(b *testing.B) {
	for _, shape := range []struct{ nodes, perSocket, cores int }{{4, 2, 32}, {8, 4, 24}, {16, 4, 16}, {64, 8, 32}} {
		m := equalMachine(shape.nodes, shape.perSocket, shape.cores, 2)
		from := m.All().Difference(NewSet(0, 1, 2, 3))
		for name, how := range map[string]Distribution{
			"threads": {}, "cores": {WholeCores: true}, "socket": {BySocket: true}, "hint": {Nodes: m.Nodes()},
		} {
			n := m.All().Size()/2 + 3
			if how.WholeCores {
				n++
			}
			b.Run(fmt.Sprintf("nodes=%d/%s", shape.nodes, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.Distribute(from, n, how, m.taker(how.WholeCores)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

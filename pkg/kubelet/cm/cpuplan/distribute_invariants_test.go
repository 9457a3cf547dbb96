// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// randomEqualTopology has nodes and cores of equal size.
func randomEqualTopology(r *rand.Rand) *Topology {
	return equalMachine(1+r.IntN(12), 1+r.IntN(4), 1+r.IntN(8), 1+r.IntN(3))
}

// randomManyNodes has nodes and cores of unequal size, more of them than are
// weighed in all combinations.
func randomManyNodes(r *rand.Rand) *Topology {
	nodes := make([][]int, exactNodes+1+r.IntN(20))
	for i := range nodes {
		for range 1 + r.IntN(6) {
			nodes[i] = append(nodes[i], 1+r.IntN(3))
		}
	}
	return machineOf(1+r.IntN(5), nodes...)
}

func randomDistribution(r *rand.Rand, t *Topology) Distribution {
	d := Distribution{WholeCores: r.IntN(2) == 0, BySocket: r.IntN(3) == 0}
	if r.IntN(2) == 0 {
		d.Nodes = randomNodes(r, t.Nodes())
	}
	return d
}

// TestDistributeProperties checks on machines of any shape what must hold on
// every one.
func TestDistributeProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	given, refused := 0, 0
	for i := range 12000 {
		topology := []func(*rand.Rand) *Topology{randomTopology, randomEqualTopology, randomManyNodes}[i%3](r)
		from := randomSubset(r, topology.All())
		if checkDistribute(t, topology, from, r.IntN(from.Size()+2), randomDistribution(r, topology)) {
			given++
		} else {
			refused++
		}
	}
	require.Greater(t, min(given, refused), 2000)
}

// checkDistribute asks once, checks the answer, and says whether there was one.
func checkDistribute(t *testing.T, topology *Topology, from Set, n int, d Distribution) bool {
	t.Helper()
	take := topology.taker(d.WholeCores)
	got, err := topology.Distribute(from, n, d, take)
	again, _ := topology.Distribute(from, n, d, take)
	require.True(t, again.Equals(got), "not the same twice")

	offer := from
	if !d.Nodes.IsEmpty() {
		offer = from.Intersection(topology.OnNodes(d.Nodes))
	}
	if _, packErr := take(offer, n); packErr != nil {
		var notEnough *NotEnoughError
		require.ErrorAs(t, err, &notEnough)
		return false
	}
	require.NoError(t, err, "packed there is a way")
	require.Equal(t, n, got.Size())
	require.True(t, got.IsSubsetOf(offer))
	if d.WholeCores {
		require.True(t, topology.Siblings(got).Equals(got), "a core is split")
		offer = topology.WholeCores(offer)
	}
	if !d.Nodes.IsEmpty() && n > 0 {
		checkEven(t, topology, offer, got, d)
	}
	return true
}

// checkEven requires that all nodes of a hint give: none less than an equal part,
// rounded down to groups, unless that is all it has.
func checkEven(t *testing.T, topology *Topology, offer, got Set, d Distribution) {
	t.Helper()
	s := topology.newSpread(offer, got.Size(), d)
	if s.largest > 0 {
		return // parts depend on what cores add up to
	}
	have, gave := counts(topology, offer), counts(topology, got)
	givers := topology.NodesOf(offer).Size()
	if s.need < givers {
		for i := range gave {
			require.LessOrEqual(t, gave[i], s.group, "%v of %v", gave, have)
		}
		return
	}
	for i := range gave {
		even := got.Size() / givers / s.group * s.group
		require.GreaterOrEqual(t, gave[i], min(have[i], even), "%v of %v", gave, have)
	}
	// A node that has some left gave no less than any other, but for what did
	// not divide.
	for i := range gave {
		for j := range gave {
			if gave[i] < have[i] && gave[j] > gave[i] {
				require.Less(t, gave[j]-gave[i], givers*s.group, "%v of %v", gave, have)
			}
		}
	}
}

// TestWideIsNoLessBalanced compares the two ways to find the nodes where both
// can be used: with the same number of nodes, the sum of squares of what is left
// is never worse, and where it is the same without any node giving two groups of what
// is left over, so are the shares.
func TestWideIsNoLessBalanced(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	same, better := 0, 0
	for range 20000 {
		s := spread{group: 1 + r.IntN(2), exact: true}
		for range 1 + r.IntN(exactNodes) {
			s.nodes = append(s.nodes, supply{groups: 1 + r.IntN(20)})
			s.need += r.IntN(s.nodes[len(s.nodes)-1].groups + 1)
		}
		s.need = max(s.need, 1)
		s.everywhere = r.IntN(3) == 0
		exact := s.shares()
		s.exact = false
		wide := s.shares()
		require.Equal(t, exact == nil, wide == nil)
		if exact == nil {
			continue
		}
		require.LessOrEqual(t, s.squares(wide), s.squares(exact))
		if s.squares(wide) < s.squares(exact) {
			better++
			continue
		}
		single := true
		for i := range exact {
			single = single && exact[i].extra <= 1
		}
		if single {
			require.Equal(t, exact, wide)
			same++
		}
	}
	require.Greater(t, same, 8000)
	t.Logf("%d the same, %d better", same, better)
}

// TestWideBySocket checks that nodes of one socket come first.
func TestWideBySocket(t *testing.T) {
	m := equalMachine(16, 4, 4, 2)
	from := leave(m, 5, 8, 7, 2, 8, 2, 2, 2, 2, 8, 2, 2, 2, 2, 8, 2)
	got, err := m.Distribute(from, 12, Distribution{}, m.Take)
	require.NoError(t, err)
	require.Greater(t, len(socketsOf(m, got)), 1)
	got, err = m.Distribute(from, 12, Distribution{BySocket: true}, m.Take)
	require.NoError(t, err)
	require.Len(t, socketsOf(m, got), 1)
	require.Equal(t, []int{0, 6, 6, 0}, counts(m, got)[:4])
}

func socketsOf(t *Topology, cpus Set) map[int]bool {
	sockets := map[int]bool{}
	for cpu := range cpus.All() {
		sockets[t.sockets.of[cpu]] = true
	}
	return sockets
}

// TestScore compares the score, which is counted in whole numbers, with the
// definition of KEP-2902 in floating point, rounded as the kubelet does.
func TestScore(t *testing.T) {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	r := rand.New(rand.NewPCG(17, 18))
	for range 20000 {
		s := spread{group: 1 + r.IntN(4)}
		most, sum, squares := 1+r.IntN(1000), 0, int64(0)
		for range 1 + r.IntN(numa.MaxNodes) {
			left := r.IntN(most)
			s.nodes = append(s.nodes, supply{groups: left})
			sum, squares = sum+left*s.group, squares+square(left)
		}
		mean, deviations := round(float64(sum)/float64(len(s.nodes))), 0.0
		for _, node := range s.nodes {
			deviations += math.Pow(float64(node.groups*s.group)-mean, 2)
		}
		want := round(math.Sqrt(deviations / float64(len(s.nodes))))
		require.InDelta(t, want*1000, float64(s.score(squares)), 1e-6)
	}
}

// TestDistributeManyNodes has the largest machines end soon, whatever is asked.
func TestDistributeManyNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 20))
	nodes := make([][]int, numa.MaxNodes)
	for i := range nodes {
		nodes[i] = append(repeat(2, 20), repeat(1, i%5)...)
	}
	m := machineOf(8, nodes...)
	for range 30 {
		from := randomSubset(r, m.All())
		d := randomDistribution(r, m)
		checkDistribute(t, m, from, r.IntN(from.Size()), d)
	}
}

func FuzzDistribute(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint16(10), uint8(0))
	f.Add(uint64(3), uint64(4), uint16(7), uint8(3))
	f.Fuzz(func(t *testing.T, seed, nodes uint64, n uint16, flags uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		topology := []func(*rand.Rand) *Topology{randomTopology, randomEqualTopology, randomManyNodes}[seed%3](r)
		d := Distribution{WholeCores: flags&1 != 0, BySocket: flags&2 != 0}
		if flags&4 != 0 {
			d.Nodes = numa.SetFromBits(nodes)
		}
		checkDistribute(t, topology, randomSubset(r, topology.All()), int(n), d)
	})
}

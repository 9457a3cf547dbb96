// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// distributed is one node with distribute-cpus-across-numa, on both sides.
type distributed struct {
	machine
	reserved              cpuplan.Set
	wholeCores, bySocket  bool
	policy                cpumanager.Policy
	store                 *affinity
	threads, nodesPerSock int
}

func newDistributed(tb testing.TB, m machine, threads, nodesPerSocket int, reserved cpuplan.Set, wholeCores, bySocket bool) *distributed {
	options := map[string]string{"distribute-cpus-across-numa": "true"}
	if wholeCores {
		options["full-pcpus-only"] = "true"
	}
	if bySocket {
		options["align-by-socket"] = "true"
	}
	d := &distributed{machine: m, reserved: reserved, wholeCores: wholeCores, bySocket: bySocket,
		store: &affinity{}, threads: threads, nodesPerSock: nodesPerSocket}
	var err error
	d.policy, err = cpumanager.NewStaticPolicy(quiet, m.upstream, reserved.Size(), cpuset.New(reserved.List()...), d.store, options)
	require.NoError(tb, err)
	return d
}

// theirs is what the kubelet gives a pod when the free CPUs are those.
func (d *distributed) theirs(free cpuplan.Set, n int) (cpuplan.Set, error) {
	s := state.NewMemoryState(quiet)
	s.SetDefaultCPUSet(cpuset.New(free.Union(d.reserved).List()...))
	pod := guaranteedPod("p", n)
	if err := d.policy.Allocate(quiet, s, pod, &pod.Spec.Containers[0], lifecycle.AddOperation); err != nil {
		return cpuplan.Set{}, err
	}
	cpus, _ := s.GetCPUSet("p", "c")
	return cpuplan.NewSet(cpus.UnsortedList()...), nil
}

// near is what of the free CPUs the affinity covers, as the kubelet sees it.
func (d *distributed) near(free cpuplan.Set) cpuplan.Set {
	if d.store.bits == nil {
		return cpuplan.Set{}
	}
	nodes := numa.SetOf(d.store.bits...)
	if d.bySocket {
		var bits []int
		for _, node := range d.ours.Nodes().List() {
			for _, wanted := range d.store.bits {
				if node/d.nodesPerSock == wanted/d.nodesPerSock {
					bits = append(bits, node)
				}
			}
		}
		nodes = numa.SetOf(bits...)
	}
	return free.Intersection(d.ours.OnNodes(nodes))
}

// mine is our choice in the same two steps: the affinity's CPUs, then others.
func (d *distributed) mine(free cpuplan.Set, n int, nodes numa.Set) (cpuplan.Set, error) {
	how := cpuplan.Distribution{Nodes: nodes, WholeCores: d.wholeCores, BySocket: d.bySocket}
	take := d.ours.Take
	if d.wholeCores {
		take = d.ours.TakeWholeCores
		free = d.ours.WholeCores(free)
	}
	near := d.near(free)
	first, err := d.ours.Distribute(near, min(n, near.Size()), how, take)
	if err != nil {
		return cpuplan.Set{}, err
	}
	how.Nodes = numa.Set{}
	rest, err := d.ours.Distribute(free.Difference(first), n-first.Size(), how, take)
	return first.Union(rest), err
}

// perNode is how many of the CPUs lie on each node.
func (d *distributed) perNode(cpus cpuplan.Set) []int {
	var counts []int
	for _, node := range d.ours.Nodes().List() {
		counts = append(counts, cpus.Intersection(d.ours.OnNodes(numa.SetOf(node))).Size())
	}
	return counts
}

// mayNeverReturn reports whether the kubelet can come to a subset of nodes that
// has the CPUs of a remainder but not the whole cores (issue 140730).
func (d *distributed) mayNeverReturn(free cpuplan.Set, n int) bool {
	near := d.near(free)
	first := min(n, near.Size())
	// What is left for the second step depends on the first; on any it can hang
	// only if there are half cores, and then it is not asked.
	if first > 0 && first < n {
		return true
	}
	if first > 0 {
		free = near
	}
	have := d.perNode(free)
	total := func(mask int, of []int) (sum int) {
		for ; mask != 0; mask &= mask - 1 {
			sum += of[bits.TrailingZeros(uint(mask))]
		}
		return sum
	}
	for combination := 1; combination < 1<<len(have); combination++ {
		k := bits.OnesCount(uint(combination))
		each := n / k / d.threads * d.threads
		able := 0
		left := make([]int, len(have))
		for i, cpus := range have {
			if combination>>i&1 == 1 {
				give := each
				if d.bySocket {
					give = min(each, cpus/d.threads*d.threads)
				}
				left[i] = cpus - give
				if left[i] >= d.threads {
					able |= 1 << i
				}
			}
		}
		rest := n - total(combination, have) + total(combination, left)
		for subset := able; subset > 0 && rest > 0; subset = (subset - 1) & able {
			groups := 0
			for i := range left {
				if subset>>i&1 == 1 {
					groups += left[i] / d.threads * d.threads
				}
			}
			if total(subset, left) >= rest && groups < rest {
				return true
			}
		}
	}
	return false
}

// aliased reports whether a difference can come from the combinations of nodes
// that the kubelet keeps in memory which it goes on writing to: only those of 4,
// 6 or more out of at least 5 nodes, and never to the better.
func (d *distributed) aliased(free, ours, theirs cpuplan.Set) bool {
	return d.ours.NodesOf(free).Size() >= 5 && d.ours.NodesOf(theirs).Size() >= 4 &&
		d.ours.NodesOf(ours).Size() <= d.ours.NodesOf(theirs).Size() &&
		d.unevenness(free, ours) <= d.unevenness(free, theirs)
}

// unevenness grows with the standard deviation of the free CPUs that are left.
func (d *distributed) unevenness(free, taken cpuplan.Set) (sum int) {
	for _, left := range d.perNode(free.Difference(taken)) {
		sum += left * left
	}
	return sum
}

// classes counts what was compared, by outcome.
type classes map[string]int

const aliasedClass = "aliased combinations (defect 4): the kubelet uses others than it weighed"

// compare asks both sides for n of the free CPUs and returns ours.
func (d *distributed) compare(t *testing.T, seen classes, free cpuplan.Set, n int) cpuplan.Set {
	t.Helper()
	halfCores := d.wholeCores && !d.ours.WholeCores(free).Equals(free)
	ours, ourErr := d.mine(free, n, numa.Set{})
	if ourErr == nil {
		require.Equal(t, n, ours.Size())
		require.True(t, ours.IsSubsetOf(free))
		if d.wholeCores {
			require.True(t, d.ours.Siblings(ours).Equals(ours), "a core is split")
		}
	} else {
		var notEnough *cpuplan.NotEnoughError
		require.ErrorAs(t, ourErr, &notEnough)
		require.Less(t, d.offered(free), n)
	}
	if halfCores && d.mayNeverReturn(free, n) {
		seen["not asked: the kubelet may never return (140730)"]++
		return ours
	}
	theirs, theirErr := d.theirs(free, n)
	what := fmt.Sprintf("%d of %s free %v, mask %v, whole cores %t, by socket %t: theirs %s %v, ours %s %v",
		n, text(free), d.perNode(free), d.store.bits, d.wholeCores, d.bySocket, text(theirs), d.perNode(theirs), text(ours), d.perNode(ours))
	switch {
	case theirErr != nil && ourErr != nil:
		seen["both refuse"]++
	case theirErr == nil && ourErr == nil && theirs.Equals(ours):
		seen["same CPUs"]++
	case halfCores:
		seen["half cores, which the kubelet counts and gives"]++
	case theirErr == nil && ourErr == nil && d.aliased(free, ours, theirs):
		seen[aliasedClass]++
	default:
		require.Fail(t, "unexplained", "%s (%v, %v)", what, theirErr, ourErr)
	}
	if ourErr == nil && theirErr == nil && len(d.store.bits) > 1 && !d.bySocket && !halfCores {
		d.compareWide(t, seen, free, n, theirs, what)
	}
	return ours
}

// compareWide asks for the affinity to be used in full.
func (d *distributed) compareWide(t *testing.T, seen classes, free cpuplan.Set, n int, theirs cpuplan.Set, what string) {
	t.Helper()
	near := d.near(free)
	ours, err := d.mine(free, n, numa.SetOf(d.store.bits...))
	require.NoError(t, err)
	require.Equal(t, n, ours.Size())
	wanted := min(n/d.group(), d.ours.NodesOf(near).Size())
	require.GreaterOrEqual(t, d.ours.NodesOf(ours.Intersection(near)).Size(), wanted, what)
	switch {
	case ours.Equals(theirs):
		seen["mask in full: same CPUs"]++
	case d.ours.NodesOf(theirs).Size() < wanted:
		seen["mask in full: the kubelet narrows it (139430)"]++
	default:
		// Nodes that have less than the even share make the kubelet pack.
		even := n / d.ours.NodesOf(near).Size() / d.group() * d.group()
		poor := false
		for _, have := range d.perNode(near) {
			poor = poor || have > 0 && have < even
		}
		require.True(t, poor, "unexplained: %s in full %s %v", what, text(ours), d.perNode(ours))
		seen["mask in full: the kubelet packs (139430)"]++
	}
}

// offered is how many of the free CPUs can be given out.
func (d *distributed) offered(free cpuplan.Set) int {
	if d.wholeCores {
		free = d.ours.WholeCores(free)
	}
	return free.Size()
}

func (d *distributed) group() int {
	if d.wholeCores {
		return d.threads
	}
	return 1
}

// TestDistributeSameCPUs runs both sides on random free CPUs and then on what
// their own choices leave.
func TestDistributeSameCPUs(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.CPUManagerPolicyAlphaOptions: true,
	})
	r := rand.New(rand.NewPCG(11, 12))
	seen := classes{}
	shapes := [][2]int{{1, 1}, {2, 1}, {1, 2}, {3, 1}, {1, 3}, {2, 2}, {4, 1}, {1, 4}, {1, 5}, {5, 1}}
	for round := range 4000 {
		shape := shapes[r.IntN(len(shapes))]
		if round%40 == 0 {
			shape = [][2]int{{2, 3}, {3, 2}, {1, 7}, {2, 4}, {4, 2}}[r.IntN(5)]
		}
		threads, cores := 1+r.IntN(2), 1+r.IntN(8)
		if round%50 == 1 {
			cores = 40 + r.IntN(60)
		}
		m := newMachine(shape[0], shape[1], cores, threads, r.IntN(2) == 0, false)
		wholeCores := r.IntN(2) == 0
		var reserved cpuplan.Set
		if r.IntN(2) == 0 {
			reserved, _ = m.ours.Take(m.ours.All(), threads*(1+r.IntN(2)))
			if r.IntN(20) == 0 {
				reserved, _ = m.ours.Take(m.ours.All(), 1)
			}
		}
		d := newDistributed(t, m, threads, shape[1], reserved, wholeCores, r.IntN(3) == 0)
		var free cpuplan.Set
		for range 8 {
			if free.Size() < d.group() || r.IntN(4) == 0 {
				free = randomFree(r, m.ours, wholeCores && r.IntN(20) > 0).Difference(reserved)
			}
			d.store.bits = nil
			if r.IntN(3) == 0 {
				d.store.bits = randomBits(r, m.ours.Nodes())
			}
			n := (1 + r.IntN(free.Size()+1)) / d.group() * d.group()
			if n == 0 {
				continue
			}
			free = free.Difference(d.compare(t, seen, free, n))
		}
	}
	for class, count := range seen {
		t.Logf("%6d %s", count, class)
	}
	require.Greater(t, seen["same CPUs"], 20_000)
	require.Less(t, seen[aliasedClass], 20)
}

// TestDistributeRounding has free CPUs for which the best node is no better than
// the one before it once the score is rounded.
func TestDistributeRounding(t *testing.T) {
	m := newMachine(1, 8, 262, 1, true, false)
	d := newDistributed(t, m, 1, 8, cpuplan.Set{}, false, false)
	var free cpuplan.Set
	for node, count := range []int{1, 1, 5, 6, 261, 262, 262, 262} {
		cpus := m.ours.OnNodes(numa.SetOf(node)).List()
		free = free.Union(cpuplan.NewSet(cpus[:count]...))
	}
	seen := classes{}
	cpus := d.compare(t, seen, free, 1)
	require.Equal(t, 1, seen["same CPUs"])
	require.Equal(t, numa.SetOf(4), m.ours.NodesOf(cpus))
}

// randomFree leaves out a random part of each node, by whole cores or not.
func randomFree(r *rand.Rand, t *cpuplan.Topology, wholeCores bool) cpuplan.Set {
	var busy cpuplan.Set
	for _, node := range t.Nodes().List() {
		of := r.IntN(7)
		for cpu := range t.OnNodes(numa.SetOf(node)).All() {
			if r.IntN(6) >= of {
				busy = busy.Union(cpuplan.NewSet(cpu))
			}
		}
	}
	if wholeCores {
		busy = t.Siblings(busy)
	}
	return t.All().Difference(busy)
}

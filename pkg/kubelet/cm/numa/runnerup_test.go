// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunnerUp(t *testing.T) {
	all := SetOf(0, 1)
	hint := func(preferred bool, ids ...int) Hint { return Hint{Nodes: SetOf(ids...), Preferred: preferred} }
	cpu := Resource{Name: "cpu", Hints: []Hint{hint(true, 0), hint(true, 1), hint(false, 0, 1)}}
	memory := Resource{Name: "memory", Hints: []Hint{hint(true, 1), hint(false, 0, 1)}}

	next, found := RunnerUp(all, []Resource{cpu}, MergeOptions{}, SetOf(0))
	require.True(t, found)
	require.Equal(t, hint(true, 1), next)

	require.Equal(t, hint(true, 1), Merge(all, []Resource{cpu, memory}, MergeOptions{}))
	next, found = RunnerUp(all, []Resource{cpu, memory}, MergeOptions{}, SetOf(1))
	require.True(t, found)
	require.Equal(t, hint(false, 0), next)

	_, found = RunnerUp(SetOf(0), []Resource{{Name: "cpu", Hints: []Hint{hint(true, 0)}}}, MergeOptions{}, SetOf(0))
	require.False(t, found)
}

// TestRunnerUpIsNext tries every choice: the runner-up is what is best of those
// that do not come to the winner.
func TestRunnerUpIsNext(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		all := SetFromBits(r.Uint64N(15) + 1)
		resources := make([]Resource, 1+r.IntN(3))
		for i := range resources {
			for range 1 + r.IntN(4) {
				resources[i].Hints = append(resources[i].Hints, Hint{Nodes: SetFromBits(r.Uint64N(15) + 1), Preferred: r.IntN(2) == 0})
			}
		}
		winner := Merge(all, resources, MergeOptions{}).Nodes
		next, found := RunnerUp(all, resources, MergeOptions{}, winner)
		preferred, any := map[Set]bool{}, false
		var walk func(i int, at Set, same bool, first Set)
		walk = func(i int, at Set, same bool, first Set) {
			if i == len(resources) {
				if !at.IsEmpty() && at != winner {
					any, preferred[at] = true, preferred[at] || same
				}
				return
			}
			for _, h := range resources[i].Hints {
				equal := h.Preferred && same && (i == 0 || h.Nodes == first)
				walk(i+1, at.Intersection(h.Nodes), equal, h.Nodes)
			}
		}
		walk(0, all, true, Set{})
		require.Equal(t, any, found)
		if !found {
			continue
		}
		is, reachable := preferred[next.Nodes]
		require.True(t, reachable)
		require.Equal(t, is, next.Preferred)
		for s, p := range preferred {
			better := p && !next.Preferred || p && next.Preferred && s.Narrower(next.Nodes)
			require.False(t, better, "%s comes before %s", s, next.Nodes)
		}
	}
}

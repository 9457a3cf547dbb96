// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFillCaches compares the search with trying every assignment.
func TestFillCaches(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 3000 {
		sizes := make([]int, r.IntN(6))
		for i := range sizes {
			sizes[i] = 1 + r.IntN(6)
		}
		room := make([]int, 1+r.IntN(4))
		for i := range room {
			room[i] = r.IntN(9)
		}
		cacheOf, found := fillCaches(sizes, room)
		require.Len(t, cacheOf, len(sizes))
		used, aligned := make([]int, len(room)), 0
		for i, cache := range cacheOf {
			if cache >= 0 {
				aligned++
				used[cache] += sizes[i]
			}
		}
		for i := range used {
			require.LessOrEqual(t, used[i], room[i])
		}
		require.Equal(t, found, aligned)
		require.Equal(t, tryAll(sizes, room), found, "%v into %v", sizes, room)
	}
	// Many equal slices and caches do not make it search for ever.
	sizes, room := make([]int, 60), make([]int, 16)
	for i := range sizes {
		sizes[i] = 3 + i%5
	}
	for i := range room {
		room[i] = 8
	}
	_, found := fillCaches(sizes, room)
	require.Positive(t, found)
}

func tryAll(sizes, room []int) int {
	if len(sizes) == 0 {
		return 0
	}
	best := tryAll(sizes[1:], room)
	for i := range room {
		if room[i] >= sizes[0] {
			room[i] -= sizes[0]
			best = max(best, 1+tryAll(sizes[1:], room))
			room[i] += sizes[0]
		}
	}
	return best
}

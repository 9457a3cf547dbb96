// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFilling compares the search with trying every assignment.
func TestFilling(t *testing.T) {
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
		search := &filling{sizes: sizes, room: room}
		binOf, found := search.search(r.IntN(2) == 0)
		require.Len(t, binOf, len(sizes))
		used, whole := make([]int, len(room)), 0
		for i, bin := range binOf {
			if bin >= 0 {
				whole++
				used[bin] += sizes[i]
			}
		}
		for i := range used {
			require.LessOrEqual(t, used[i], room[i])
		}
		require.Equal(t, found, whole)
		require.Equal(t, tryAll(sizes, room), found, "%v into %v", sizes, room)
	}
	// Many equal slices and bins do not make it search for ever.
	sizes, room := make([]int, 60), make([]int, 16)
	for i := range sizes {
		sizes[i] = 3 + i%5
	}
	for i := range room {
		room[i] = 8
	}
	search := &filling{sizes: sizes, room: room}
	_, found := search.search(true)
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

// TestOnFewest compares with trying all sets of bins.
func TestOnFewest(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for range 20000 {
		room, group := make([]int, 1+r.IntN(5)), make([]int, 5)
		total := 0
		for i := range room {
			room[i], group[i] = r.IntN(6), r.IntN(2)
			total += room[i]
		}
		size := r.IntN(total + 1)
		before := slices.Clone(room)
		used := onFewest(room, group, size)
		taken, touched, groups := 0, 0, map[int]bool{}
		for i := range room {
			require.True(t, room[i] >= 0 && room[i] <= before[i])
			if taken += before[i] - room[i]; room[i] < before[i] {
				touched++
				groups[group[i]] = true
			}
		}
		require.Equal(t, size, taken)
		require.Equal(t, used, touched)
		fewest, oneGroup := len(room), false
		for set := range 1 << len(room) {
			sum, width, of := 0, 0, map[int]bool{}
			for i := range before {
				if set>>i&1 == 1 {
					sum += before[i]
					width++
					of[group[i]] = true
				}
			}
			switch {
			case sum < size || width > fewest:
			case width < fewest:
				fewest, oneGroup = width, len(of) < 2
			default:
				oneGroup = oneGroup || len(of) < 2
			}
		}
		require.Equal(t, fewest, used, "%d of %v", size, before)
		require.True(t, !oneGroup || len(groups) < 2, "%d of %v in %v: %v", size, before, group, room)
	}
}

// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"cmp"
	"math"
	"slices"
)

// fillLimit bounds a search, in arrangements and what it takes to judge them. It
// is enough to try everything for a handful of slices and nodes; beyond it, the
// best that was found is used.
const fillLimit = 5_000

// filling is a search for the bin of each slice. Bins are NUMA nodes or caches.
type filling struct {
	sizes, room []int
	// judge, if not nil, tells good arrangements from bad ones with as many slices
	// in one bin: the higher is better, by its first number first. It gets what is
	// left in each bin and may change it.
	judge func(binOf, room []int) judgement
	// group is the group of each bin. Bins of one group with equal room lead to
	// equal results. Without groups no two do if there is a judge.
	group []int
	// ideal is what ends the search.
	ideal merit

	order []int
	// buffers are for the bins of each slice, and for what is left in them.
	buffers       [][]int
	current, best []int
	found         int
	judged        judgement
	steps         int
	done          bool
}

type judgement [3]int

func (j judgement) compare(o judgement) int { return slices.Compare(j[:], o[:]) }

// search distributes the slices over bins such that as many as possible lie in
// one bin each. It returns the bin of each slice, -1 for those that lie in none,
// and how many lie in one. It is a depth-first search that tries the smallest
// sufficient bin first. Of equally good arrangements it returns the first, so that
// it matters whether it goes by the order of the slices or begins with the largest;
// the latter is more likely to find a good one before it comes to its limit.
func (f *filling) search(largestFirst bool) (binOf []int, found int) {
	f.order = make([]int, len(f.sizes))
	for i := range f.order {
		f.order[i] = i
	}
	if largestFirst {
		slices.SortStableFunc(f.order, func(a, b int) int { return cmp.Compare(f.sizes[b], f.sizes[a]) })
	}
	f.current = slices.Repeat([]int{-1}, len(f.sizes))
	f.buffers = make([][]int, len(f.sizes)+1)
	for i := range f.buffers {
		f.buffers[i] = make([]int, len(f.room))
	}
	f.steps = 0
	f.place(0, 0)
	return f.best, f.found
}

func (f *filling) place(at, whole int) {
	f.steps++
	most := whole + len(f.order) - at
	if f.done || f.best != nil && (most < f.found || f.judge == nil && most == f.found || f.steps > fillLimit) {
		return
	}
	if at == len(f.order) {
		f.arrived(whole)
		return
	}
	i := f.order[at]
	byRoom := f.buffers[at][:0]
	for bin, room := range f.room {
		if room >= f.sizes[i] {
			byRoom = append(byRoom, bin)
		}
	}
	slices.SortStableFunc(byRoom, func(a, b int) int { return cmp.Compare(f.room[a], f.room[b]) })
	for place, bin := range byRoom {
		if f.triedEqual(byRoom[:place], bin) {
			continue
		}
		f.room[bin] -= f.sizes[i]
		f.current[i] = bin
		f.place(at+1, whole+1)
		f.current[i] = -1
		f.room[bin] += f.sizes[i]
	}
	f.place(at+1, whole)
}

// triedEqual reports whether one of the bins is as good as this one.
func (f *filling) triedEqual(bins []int, bin int) bool {
	return slices.ContainsFunc(bins, func(other int) bool {
		return f.room[other] == f.room[bin] && (f.judge == nil || f.group != nil && f.group[other] == f.group[bin])
	})
}

// arrived keeps an arrangement that is better than the best before it.
func (f *filling) arrived(whole int) {
	var judged judgement
	if f.judge != nil {
		f.steps += len(f.sizes) + len(f.room)
		left := f.buffers[len(f.sizes)]
		copy(left, f.room)
		judged = f.judge(f.current, left)
	}
	if f.best == nil || whole > f.found || whole == f.found && judged.compare(f.judged) > 0 {
		f.best, f.found, f.judged = slices.Clone(f.current), whole, judged
		f.done = f.judge != nil && !f.ideal.betterThan(merit{whole, judged})
	}
}

// onFewest takes size out of the room in as few bins as possible, and returns how
// many these are. Of one bin each, it is the smallest that has enough. Of
// several, those of one group are preferred to others, and the last is the
// smallest that has what the roomiest others leave.
func onFewest(room, group []int, size int) int {
	if size == 0 {
		return 0
	}
	one := -1
	for bin := range room {
		if room[bin] >= size && (one < 0 || room[bin] < room[one]) {
			one = bin
		}
	}
	if one >= 0 {
		room[one] -= size
		return 1
	}
	bins := make([]int, len(room))
	for i := range bins {
		bins[i] = i
	}
	slices.SortStableFunc(bins, func(a, b int) int { return cmp.Compare(room[b], room[a]) })
	from := bins
	fewest := atLeast(room, bins, size)
	for _, leader := range bins {
		near := slices.DeleteFunc(slices.Clone(bins), func(bin int) bool { return group[bin] != group[leader] })
		if atLeast(room, near, size) == fewest {
			from = near
			break
		}
	}
	used := 0
	for at, bin := range from {
		if size == 0 {
			break
		}
		for at+1 < len(from) && room[from[at+1]] >= size {
			at++
			bin = from[at]
		}
		part := min(size, room[bin])
		if part == 0 {
			break
		}
		room[bin] -= part
		size -= part
		used++
	}
	return used
}

// atLeast is how many of the bins, which are sorted by their room, have size
// together, or more than there can be if all do not.
func atLeast(room, bins []int, size int) int {
	for i, bin := range bins {
		if size -= room[bin]; size <= 0 {
			return i + 1
		}
	}
	return math.MaxInt
}

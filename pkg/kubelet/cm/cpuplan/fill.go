// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"cmp"
	"math"
	"slices"
)

// fillLimit bounds the search of fillBins. It is enough to try everything for a
// pod of a dozen slices; beyond it, the best that was found is used.
const fillLimit = 20_000

// filling is a search for the bin of each slice. Bins are NUMA nodes or caches.
type filling struct {
	sizes, room []int
	// judge, if not nil, tells good arrangements from bad ones with as many slices
	// in one bin: the higher is better, by its first number first. It gets what is
	// left in each bin and may change it. The search ends when a judgement
	// reaches ideal.
	judge func(binOf, room []int) judgement
	ideal judgement

	order         []int
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
	byRoom := make([]int, 0, len(f.room))
	for bin, room := range f.room {
		if room >= f.sizes[i] {
			byRoom = append(byRoom, bin)
		}
	}
	slices.SortStableFunc(byRoom, func(a, b int) int { return cmp.Compare(f.room[a], f.room[b]) })
	for place, bin := range byRoom {
		// Without a judge, bins with equal room lead to equal results.
		if f.judge == nil && place > 0 && f.room[bin] == f.room[byRoom[place-1]] {
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

// arrived keeps an arrangement that is better than the best before it.
func (f *filling) arrived(whole int) {
	var judged judgement
	if f.judge != nil {
		f.steps += len(f.room)
		judged = f.judge(f.current, slices.Clone(f.room))
	}
	if f.best == nil || whole > f.found || whole == f.found && judged.compare(f.judged) > 0 {
		f.best, f.found, f.judged = slices.Clone(f.current), whole, judged
		f.done = whole == len(f.sizes) && judged.compare(f.ideal) >= 0
	}
}

// onFewest takes size out of the room in as few bins as possible, and returns how
// many these are. Of one bin each, it is the smallest that has enough. Of
// several, those of one group are preferred to others, and the last is the
// smallest that has what the roomiest others leave.
func onFewest(room, group []int, size int) int {
	bins := make([]int, len(room))
	for i := range bins {
		bins[i] = i
	}
	slices.SortStableFunc(bins, func(a, b int) int { return cmp.Compare(room[b], room[a]) })
	from := bins
	if fewest := atLeast(room, bins, size); fewest > 1 {
		for _, leader := range bins {
			near := slices.DeleteFunc(slices.Clone(bins), func(bin int) bool { return group[bin] != group[leader] })
			if atLeast(room, near, size) == fewest {
				from = near
				break
			}
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

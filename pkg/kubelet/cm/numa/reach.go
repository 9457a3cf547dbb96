// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"cmp"
	"math/bits"
	"slices"
)

// The masks that can be reached by intersecting one mask of each list are found
// list after list: from the masks reached so far and the masks of the next list
// to their pairwise intersections. Before that every mask is cut down to the
// core, the nodes that occur in all lists: no other node can be in a result.
//
//   - Few pairs are intersected one by one.
//   - For a core of up to 16 nodes, pairs are never formed: with c(S) the number
//     of masks that contain S, c of the intersections is the product of both
//     sides' c, and the masks themselves come back by inclusion and exclusion.
//     That takes n*2^n additions, 1,024 for 8 nodes.
//   - For a larger core, at most 2^18 pairs are intersected per list. Where
//     there were more, both sides are cut to 512 masks: the 256 that would make
//     the best result, and the 256 widest, which leave the other side's masks
//     most intact. The result is then one that can be reached, near to the
//     best, and maybe not the best.
const (
	maxDenseNodes = 16
	fewPairs      = 1 << 12
	maxPairs      = 1 << 18
	keptMasks     = 1 << 9
)

// reachable offers pick every non-empty mask that some choice of hints leads to.
func (w *workspace) reachable(lists [][]Hint, all Set, pick *picker) {
	core := all
	pairs := 1
	for _, list := range lists {
		core = core.Intersection(unionOf(list, all))
		if pairs <= fewPairs {
			pairs *= len(list)
		}
	}
	if core.IsEmpty() || pairs == 0 {
		return
	}
	if n := core.Size(); n <= maxDenseNodes && pairs > fewPairs {
		w.reachDense(lists, newFrame(core), pick)
		return
	}
	w.reachPairs(lists, core, pick)
}

func (w *workspace) reachPairs(lists [][]Hint, core Set, pick *picker) {
	// Short lists first: they keep what is reached small.
	w.sorted = append(w.sorted[:0], lists...)
	slices.SortStableFunc(w.sorted, func(a, b []Hint) int { return cmp.Compare(len(a), len(b)) })
	w.reached = append(w.reached[:0], core.word)
	for _, list := range w.sorted {
		w.list = distinct(w.list[:0], list, core)
		w.intersect(pick.target)
	}
	for _, word := range w.reached {
		pick.offer(Set{word})
	}
}

func unionOf(list []Hint, all Set) Set {
	var union Set
	for _, h := range list {
		if h.Any {
			return all
		}
		union = union.Union(h.Nodes)
	}
	return union
}

// within returns the part of a hint that lies in core.
func (h Hint) within(core Set) Set {
	if h.Any {
		return core
	}
	return h.Nodes.Intersection(core)
}

// distinct returns, in the given slice, the different masks of list within core,
// ascending. The empty mask is kept out: nothing comes of it.
func distinct(words []uint64, list []Hint, core Set) []uint64 {
	for _, h := range list {
		if s := h.within(core); !s.IsEmpty() {
			words = append(words, s.word)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// intersect replaces reached by its intersections with list.
func (w *workspace) intersect(target int) {
	a, b := w.reached, w.list
	if len(a)*len(b) > maxPairs {
		w.trimmed[0] = trim(w.trimmed[0], a, target)
		w.trimmed[1] = trim(w.trimmed[1], b, target)
		a, b = w.trimmed[0], w.trimmed[1]
	}
	w.reached = w.distinctPairs(a, b)
	slices.Sort(w.reached) // what trim keeps is to depend on nothing else
}

// distinctPairs returns the different intersections, in the memory of reached,
// which must not be b; empty ones are left out. It looks for each in a table of
// at least twice as many places, of which only as many are used as are needed,
// since they have to be cleared.
func (w *workspace) distinctPairs(a, b []uint64) []uint64 {
	size := 1 << bits.Len(uint(2*len(a)*len(b)))
	w.table = slices.Grow(w.table[:0], size)[:size]
	clear(w.table)
	a = append(w.trimmed[0][:0], a...) // a may be what is overwritten
	w.trimmed[0] = a
	found := w.reached[:0]
	for _, x := range a {
		for _, y := range b {
			word := x & y
			if word == 0 {
				continue
			}
			// The constant is 2^64 divided by the golden ratio (Knuth 6.4).
			at := word * 0x9e3779b97f4a7c15 >> (64 - bits.Len(uint(size-1)))
			for w.table[at] != 0 && w.table[at] != word {
				at = (at + 1) % uint64(size)
			}
			if w.table[at] == 0 {
				w.table[at] = word
				found = append(found, word)
			}
		}
	}
	return found
}

// trim returns, in the memory of kept, the best and the widest of words,
// keptMasks in all.
func trim(kept, words []uint64, target int) []uint64 {
	kept = append(kept[:0], words...)
	if len(words) <= keptMasks {
		return kept
	}
	sortBy := func(words []uint64, key func(size int) int) {
		slices.SortFunc(words, func(a, b uint64) int {
			return cmp.Or(cmp.Compare(key(bits.OnesCount64(a)), key(bits.OnesCount64(b))), cmp.Compare(a, b))
		})
	}
	// The best half stays in front; the widest of the others are then all that
	// is missing of the widest.
	sortBy(kept, func(size int) int { return nearestTo(target, size) })
	sortBy(kept[keptMasks/2:], func(size int) int { return -size })
	kept = kept[:keptMasks]
	slices.Sort(kept)
	return kept
}

// frame numbers the nodes of a core from 0 on, so that its subsets are the
// numbers below 2^n.
type frame struct {
	core  Set
	nodes int
	ids   [maxDenseNodes]int
}

func newFrame(core Set) frame {
	f := frame{core: core}
	for id := range core.All() {
		f.ids[f.nodes] = id
		f.nodes++
	}
	return f
}

func (f *frame) size() int { return 1 << f.nodes }

// index returns the number of a subset of the core.
func (f *frame) index(s Set) int {
	if last := f.nodes - 1; f.ids[last]-f.ids[0] == last {
		return int(s.word >> f.ids[0]) // no gaps between the IDs
	}
	index := 0
	for i, id := range f.ids[:f.nodes] {
		index |= int(s.word>>id&1) << i
	}
	return index
}

// subset is the inverse of index.
func (f *frame) subset(index int) Set {
	var s Set
	for i, id := range f.ids[:f.nodes] {
		s.word |= uint64(index>>i&1) << id
	}
	return s
}

func (w *workspace) reachDense(lists [][]Hint, f frame, pick *picker) {
	for i := range w.counts {
		w.counts[i] = slices.Grow(w.counts[i][:0], f.size())[:f.size()]
	}
	reached, next := w.counts[0], w.counts[1]
	for i, list := range lists {
		into := next
		if i == 0 {
			into = reached
		}
		clear(into)
		for _, h := range list {
			into[f.index(h.within(f.core))] = 1
		}
		if i > 0 {
			intersectAll(reached, next)
		}
	}
	for index, is := range reached {
		if is != 0 {
			pick.offer(f.subset(index))
		}
	}
}

// intersectAll sets a[S] to 1 when S is the intersection of a member of a and a
// member of b, and to 0 otherwise; both hold 0 or 1 per subset. It leaves b in
// an unspecified state. No count overflows: at most 3^16 pairs of subsets of 16
// nodes have the same intersection, and what wraps around on the way wraps back.
func intersectAll(a, b []uint32) {
	countSupersets(a)
	countSupersets(b)
	for i := range a {
		a[i] *= b[i]
	}
	for bit := 1; bit < len(a); bit <<= 1 {
		for lo := 0; lo < len(a); lo += 2 * bit {
			without, with := a[lo:lo+bit], a[lo+bit:lo+2*bit]
			for i := range without {
				without[i] -= with[i]
			}
		}
	}
	for i, count := range a {
		if count != 0 {
			a[i] = 1
		}
	}
}

// countSupersets replaces the value of each subset by the sum of the values of
// the sets that contain it.
func countSupersets(a []uint32) {
	for bit := 1; bit < len(a); bit <<= 1 {
		for lo := 0; lo < len(a); lo += 2 * bit {
			without, with := a[lo:lo+bit], a[lo+bit:lo+2*bit]
			for i := range without {
				without[i] += with[i]
			}
		}
	}
}

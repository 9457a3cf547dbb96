// SPDX-License-Identifier: Apache-2.0

package numa

import "slices"

// preferred offers the online part of every mask that all lists prefer.
//
// A list with a preferred "any" is content with every mask. If all are, then
// the choice of nothing but "any" is preferred too and stands for all nodes,
// and so does each mask that only some of the lists prefer.
func (w *workspace) preferred(lists [][]Hint, all Set, pick *picker) {
	w.demanding = w.demanding[:0]
	for _, list := range lists {
		content, count := preference(list)
		if content {
			continue
		}
		if count == 0 {
			return
		}
		w.demanding = append(w.demanding, list)
	}
	if len(w.demanding) > 0 {
		w.common(w.demanding, true, func(s Set) { pick.offer(s.Intersection(all)) })
		return
	}
	pick.offer(all)
	for _, list := range lists {
		for _, h := range list {
			if h.Preferred && !h.Any {
				pick.offer(h.Nodes.Intersection(all))
			}
		}
	}
}

// common calls offer with each mask that every one of the lists has, or has as a
// preferred one. "Any" is no mask; without lists there is none.
func (w *workspace) common(lists [][]Hint, preferredOnly bool, offer func(Set)) {
	if len(lists) == 0 {
		return
	}
	// The shortest list is the sieve for the others, so that one very long
	// list costs one look-up per hint and no memory.
	fewest, fewestCount := 0, -1
	for i, list := range lists {
		count := 0
		for _, h := range list {
			if !h.Any && (h.Preferred || !preferredOnly) {
				count++
			}
		}
		if fewestCount < 0 || count < fewestCount {
			fewest, fewestCount = i, count
		}
	}
	words := w.words[:0]
	for _, h := range lists[fewest] {
		if !h.Any && (h.Preferred || !preferredOnly) {
			words = append(words, h.Nodes.word)
		}
	}
	slices.Sort(words)
	words = slices.Compact(words)
	agreed := append(w.agreed[:0], make([]int, len(words))...) // how many of the other lists agree, in their order
	w.words, w.agreed = words, agreed
	others := 0
	for i, list := range lists {
		if i == fewest {
			continue
		}
		for _, h := range list {
			if h.Any || preferredOnly && !h.Preferred {
				continue
			}
			if at, ok := slices.BinarySearch(words, h.Nodes.word); ok && agreed[at] == others {
				agreed[at]++
			}
		}
		others++
	}
	for at, word := range words {
		if agreed[at] == others {
			offer(Set{word})
		}
	}
}

// preference reports whether the list has a preferred "any", and how many
// preferred masks it has.
func preference(list []Hint) (content bool, masks int) {
	for _, h := range list {
		switch {
		case !h.Preferred:
		case h.Any:
			content = true
		default:
			masks++
		}
	}
	return content, masks
}

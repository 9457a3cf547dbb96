// SPDX-License-Identifier: Apache-2.0

package numa

import "slices"

// eachPreferred offers the online part of every mask that all lists prefer.
//
// A list with a preferred "any" is content with every mask. If all are, then
// the choice of nothing but "any" is preferred too and stands for all nodes,
// and so does each mask that only some of the lists prefer.
func eachPreferred(lists [][]Hint, all Set, offer func(Set)) {
	var demanding [][]Hint
	var fewest, fewestCount int
	for _, list := range lists {
		content, count := preference(list)
		if content {
			continue
		}
		if count == 0 {
			return
		}
		if len(demanding) == 0 || count < fewestCount {
			fewest, fewestCount = len(demanding), count
		}
		demanding = append(demanding, list)
	}

	if len(demanding) == 0 {
		offer(all)
		for _, list := range lists {
			for _, h := range list {
				if h.Preferred && !h.Any {
					offer(h.Nodes.Intersection(all))
				}
			}
		}
		return
	}

	// The shortest list is the sieve for the others, so that one very long
	// list costs one look-up per hint and no memory.
	words := make([]uint64, 0, fewestCount)
	for _, h := range demanding[fewest] {
		if h.Preferred {
			words = append(words, h.Nodes.word)
		}
	}
	slices.Sort(words)
	words = slices.Compact(words)
	agreed := make([]int, len(words)) // how many of the other lists agree, in their order
	others := 0
	for i, list := range demanding {
		if i == fewest {
			continue
		}
		for _, h := range list {
			if !h.Preferred {
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
			offer(Set{word}.Intersection(all))
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

// SPDX-License-Identifier: Apache-2.0

package bitmask

import "github.com/podslice/podslice/pkg/kubelet/cm/numa"

// Up to completeBits list entries IterateBitMasks visits every mask. A longer
// list is cut after maxMasks masks, which is 2^completeBits-1: the largest
// number that a complete list has, so the cost never grows beyond it.
const (
	completeBits = 16
	maxMasks     = 1<<completeBits - 1
)

// IterateBitMasks calls callback with a new mask for each combination of the
// entries of bits: all single bits first, then all pairs, and so on; within a
// size, in the order of the list ({0,1}, {0,2}, ..., {1,2}).
//
// Lists longer than 16 entries have too many combinations to visit (2^36 on a
// machine with 36 NUMA nodes), so at most 65,535 masks are visited: by growing
// size until one fewer than that has been given out, then the mask of all
// bits. Narrow masks and the widest one are thus always there.
//
// Entries outside 0-63 name no NUMA node and are skipped; an entry that stands
// twice in the list is combined twice, like two entries.
func IterateBitMasks(bits []int, callback func(BitMask)) {
	words := make([]uint64, 0, len(bits))
	var all uint64
	for _, bit := range bits {
		if bit >= 0 && bit < numa.MaxNodes {
			words = append(words, 1<<bit)
			all |= 1 << bit
		}
	}

	budget := maxMasks
	if len(words) > completeBits {
		budget-- // the mask of all bits comes last, whatever was cut
	}
	chosen := make([]int, 0, len(words)) // positions in words, ascending
	for size := 1; size <= len(words); size++ {
		chosen = chosen[:0]
		for i := range size {
			chosen = append(chosen, i)
		}
		for more := true; more; more = nextCombination(chosen, len(words)) {
			if budget == 0 {
				callback(FromSet(numa.SetFromBits(all)))
				return
			}
			budget--
			var word uint64
			for _, i := range chosen {
				word |= words[i]
			}
			callback(FromSet(numa.SetFromBits(word)))
		}
	}
}

// nextCombination advances chosen, an ascending choice out of 0 to n-1, to its
// successor in lexicographic order, or reports that it was the last one.
func nextCombination(chosen []int, n int) bool {
	for i := len(chosen) - 1; i >= 0; i-- {
		if chosen[i] < n-len(chosen)+i {
			chosen[i]++
			for j := i + 1; j < len(chosen); j++ {
				chosen[j] = chosen[j-1] + 1
			}
			return true
		}
	}
	return false
}

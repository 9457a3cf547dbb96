// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxNodes is how many NUMA node IDs a Set can hold: IDs 0 to MaxNodes-1. It
// is the width of the bit masks that the kubelet's device manager exchanges
// with the topology manager.
const MaxNodes = 64

// Set is an immutable set of NUMA node IDs. The zero value is the empty set.
// Sets are comparable with == and usable as map keys.
type Set struct {
	word uint64
}

// NewSet returns the set of the given node IDs. It fails for an ID outside
// 0 to MaxNodes-1.
func NewSet(ids ...int) (Set, error) {
	var s Set
	for _, id := range ids {
		if id < 0 || id >= MaxNodes {
			return Set{}, fmt.Errorf("NUMA node ID %d is outside the supported range 0-%d", id, MaxNodes-1)
		}
		s.word |= 1 << id
	}
	return s, nil
}

// SetOf is NewSet for IDs known to be in range; it drops the others.
func SetOf(ids ...int) Set {
	var s Set
	for _, id := range ids {
		if id >= 0 && id < MaxNodes {
			s.word |= 1 << id
		}
	}
	return s
}

// SetFromBits returns the set whose node i is a member when bit i of word is
// set.
func SetFromBits(word uint64) Set { return Set{word} }

// Bits is the inverse of SetFromBits.
func (s Set) Bits() uint64 { return s.word }

// Size is the number of nodes in the set.
func (s Set) Size() int { return bits.OnesCount64(s.word) }

// IsEmpty reports whether the set has no node.
func (s Set) IsEmpty() bool { return s.word == 0 }

// Contains reports whether node id is in the set.
func (s Set) Contains(id int) bool { return id >= 0 && id < MaxNodes && s.word>>id&1 == 1 }

// Union returns the nodes in either set.
func (s Set) Union(o Set) Set { return Set{s.word | o.word} }

// Intersection returns the nodes in both sets.
func (s Set) Intersection(o Set) Set { return Set{s.word & o.word} }

// Difference returns the nodes of s that are not in o.
func (s Set) Difference(o Set) Set { return Set{s.word &^ o.word} }

// IsSubsetOf reports whether every node of s is in o.
func (s Set) IsSubsetOf(o Set) bool { return s.word&^o.word == 0 }

// Narrower reports whether s comes before o in the order in which masks are
// preferred: fewer nodes first, then the mask with the smaller number.
func (s Set) Narrower(o Set) bool {
	if a, b := s.Size(), o.Size(); a != b {
		return a < b
	}
	return s.word < o.word
}

// All yields the node IDs in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w := s.word; w != 0; w &= w - 1 {
			if !yield(bits.TrailingZeros64(w)) {
				return
			}
		}
	}
}

// List returns the node IDs in ascending order; it is never nil.
func (s Set) List() []int {
	ids := make([]int, 0, s.Size())
	for id := range s.All() {
		ids = append(ids, id)
	}
	return ids
}

// String writes the set in the kernel's list format, for example "0-1,4".
func (s Set) String() string {
	var b strings.Builder
	for id := 0; id < MaxNodes; id++ {
		if !s.Contains(id) {
			continue
		}
		last := id
		for s.Contains(last + 1) {
			last++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(id))
		if last > id {
			b.WriteString("-" + strconv.Itoa(last))
		}
		id = last
	}
	return b.String()
}

// Subsets yields every non-empty subset of s, by growing size and, within a
// size, in the order in which a reader would write them down ({0,1}, {0,2},
// ..., {1,2}). There are 2^Size()-1 of them; callers bound Size().
func (s Set) Subsets() iter.Seq[Set] {
	ids := s.List()
	return func(yield func(Set) bool) {
		var walk func(from int, chosen Set, left int) bool
		walk = func(from int, chosen Set, left int) bool {
			if left == 0 {
				return yield(chosen)
			}
			for i := from; i <= len(ids)-left; i++ {
				if !walk(i+1, chosen.Union(SetOf(ids[i])), left-1) {
					return false
				}
			}
			return true
		}
		for size := 1; size <= len(ids); size++ {
			if !walk(0, Set{}, size) {
				return
			}
		}
	}
}

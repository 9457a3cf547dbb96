// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MaxCPUs bounds CPU IDs: a Set holds IDs 0 to MaxCPUs-1. It is several times
// what any Linux kernel is built for and keeps a wrong ID from costing memory.
const MaxCPUs = 1 << 16

// Set is an immutable set of CPU IDs. The zero value is the empty set.
type Set struct {
	// words holds CPU i as bit i%64 of word i/64; the last word is not 0.
	words []uint64
}

// NewSet returns the set of the given IDs; IDs outside 0 to MaxCPUs-1, which no
// Topology accepts, are left out.
func NewSet(ids ...int) Set {
	var words []uint64
	for _, id := range ids {
		if id < 0 || id >= MaxCPUs {
			continue
		}
		if w := id / 64; w >= len(words) {
			words = append(words, make([]uint64, w+1-len(words))...)
		}
		words[id/64] |= 1 << (id % 64)
	}
	return Set{words}
}

// normal drops empty words at the end, so that equal sets have equal words.
func normal(words []uint64) Set {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return Set{words}
}

// Size is the number of CPUs in the set.
func (s Set) Size() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether the set has no CPU.
func (s Set) IsEmpty() bool { return len(s.words) == 0 }

// Contains reports whether CPU id is in the set.
func (s Set) Contains(id int) bool {
	return id >= 0 && id/64 < len(s.words) && s.words[id/64]>>(id%64)&1 == 1
}

// Equals reports whether both sets have the same CPUs.
func (s Set) Equals(o Set) bool { return slices.Equal(s.words, o.words) }

// Union returns the CPUs in either set.
func (s Set) Union(o Set) Set {
	long, short := s.words, o.words
	if len(long) < len(short) {
		long, short = short, long
	}
	words := slices.Clone(long)
	for i, w := range short {
		words[i] |= w
	}
	return Set{words}
}

// Intersection returns the CPUs in both sets.
func (s Set) Intersection(o Set) Set {
	words := slices.Clone(s.words[:min(len(s.words), len(o.words))])
	for i := range words {
		words[i] &= o.words[i]
	}
	return normal(words)
}

// Difference returns the CPUs of s that are not in o.
func (s Set) Difference(o Set) Set {
	words := slices.Clone(s.words)
	for i := range min(len(words), len(o.words)) {
		words[i] &^= o.words[i]
	}
	return normal(words)
}

// IsSubsetOf reports whether every CPU of s is in o.
func (s Set) IsSubsetOf(o Set) bool {
	for i, w := range s.words {
		if i >= len(o.words) || w&^o.words[i] != 0 {
			return false
		}
	}
	return true
}

// Overlaps reports whether the sets have a CPU in common.
func (s Set) Overlaps(o Set) bool {
	for i := range min(len(s.words), len(o.words)) {
		if s.words[i]&o.words[i] != 0 {
			return true
		}
	}
	return false
}

// All yields the CPU IDs in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// first is the lowest ID, or -1 of an empty set.
func (s Set) first() int {
	for i, w := range s.words {
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// List returns the CPU IDs in ascending order; it is never nil.
func (s Set) List() []int {
	ids := make([]int, 0, s.Size())
	for id := range s.All() {
		ids = append(ids, id)
	}
	return ids
}

// String writes the set in the kernel's list format, for example "0-3,8".
func (s Set) String() string {
	var b strings.Builder
	first, last := -1, -1
	flush := func() {
		if first < 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if last > first {
			b.WriteString("-" + strconv.Itoa(last))
		}
	}
	for id := range s.All() {
		if first >= 0 && id == last+1 {
			last = id
			continue
		}
		flush()
		first, last = id, id
	}
	flush()
	return b.String()
}

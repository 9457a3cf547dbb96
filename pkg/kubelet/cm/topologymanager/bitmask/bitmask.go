// SPDX-License-Identifier: Apache-2.0

package bitmask

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// BitMask is a mutable set of NUMA node IDs 0-63.
type BitMask interface {
	// Add and Remove change nothing when one of the bits is out of range.
	Add(bits ...int) error
	Remove(bits ...int) error
	And(masks ...BitMask)
	Or(masks ...BitMask)
	Clear()
	Fill()
	IsEqual(mask BitMask) bool
	IsEmpty() bool
	IsSet(bit int) bool
	AnySet(bits []int) bool
	// IsNarrowerThan orders by number of bits, then by numeric value.
	IsNarrowerThan(mask BitMask) bool
	// IsLessThan and IsGreaterThan order by numeric value.
	IsLessThan(mask BitMask) bool
	IsGreaterThan(mask BitMask) bool
	// String writes the bits as binary digits, the highest first, padded with
	// zeros to two digits or to the even number of digits that the value needs.
	String() string
	Count() int
	// GetBits returns the members in ascending order, nil when there is none.
	GetBits() []int
}

// errRange is the text that users of the kubelet's own package know.
var errRange = errors.New("bit number must be in range 0-63")

// mask is the BitMask of this package; the set is replaced as a whole.
type mask struct {
	set numa.Set
}

var _ BitMask = (*mask)(nil)

// NewEmptyBitMask returns a mask without bits.
func NewEmptyBitMask() BitMask { return &mask{} }

// NewBitMask returns a mask of the given bits. It fails, with a nil mask, for
// a bit outside 0-63.
func NewBitMask(bits ...int) (BitMask, error) {
	set, err := setOf(bits)
	if err != nil {
		return nil, err
	}
	return &mask{set}, nil
}

// FromSet returns a new mask with the nodes of set.
func FromSet(set numa.Set) BitMask { return &mask{set} }

// ToSet returns the nodes of m, the empty set for nil.
func ToSet(m BitMask) numa.Set {
	switch m := m.(type) {
	case nil:
		return numa.Set{}
	case *mask:
		if m == nil {
			return numa.Set{}
		}
		return m.set
	default:
		return numa.SetOf(m.GetBits()...)
	}
}

// And returns a new mask with the bits that first and all of masks have.
func And(first BitMask, masks ...BitMask) BitMask {
	m := &mask{ToSet(first)}
	m.And(masks...)
	return m
}

// Or returns a new mask with the bits that first or any of masks has.
func Or(first BitMask, masks ...BitMask) BitMask {
	m := &mask{ToSet(first)}
	m.Or(masks...)
	return m
}

func setOf(ids []int) (numa.Set, error) {
	set, err := numa.NewSet(ids...)
	if err != nil {
		return numa.Set{}, errRange
	}
	return set, nil
}

func (m *mask) Add(bits ...int) error {
	set, err := setOf(bits)
	if err == nil {
		m.set = m.set.Union(set)
	}
	return err
}

func (m *mask) Remove(bits ...int) error {
	set, err := setOf(bits)
	if err == nil {
		m.set = m.set.Difference(set)
	}
	return err
}

func (m *mask) And(masks ...BitMask) {
	for _, o := range masks {
		m.set = m.set.Intersection(ToSet(o))
	}
}

func (m *mask) Or(masks ...BitMask) {
	for _, o := range masks {
		m.set = m.set.Union(ToSet(o))
	}
}

func (m *mask) Clear() { m.set = numa.Set{} }

func (m *mask) Fill() { m.set = numa.SetFromBits(math.MaxUint64) }

func (m *mask) IsEqual(o BitMask) bool { return m.set == ToSet(o) }

func (m *mask) IsEmpty() bool { return m.set.IsEmpty() }

func (m *mask) IsSet(bit int) bool { return m.set.Contains(bit) }

func (m *mask) AnySet(bits []int) bool {
	return !m.set.Intersection(numa.SetOf(bits...)).IsEmpty()
}

func (m *mask) IsNarrowerThan(o BitMask) bool { return m.set.Narrower(ToSet(o)) }

func (m *mask) IsLessThan(o BitMask) bool { return m.set.Bits() < ToSet(o).Bits() }

func (m *mask) IsGreaterThan(o BitMask) bool { return m.set.Bits() > ToSet(o).Bits() }

// String pads by pairs of digits. A single bit at an even position opens a
// pair without closing it ("100", not "0100"); the format is kept because
// people grep for it.
func (m *mask) String() string {
	word := m.set.Bits()
	digits := strconv.FormatUint(word, 2)
	width := 2
	if word > 1 {
		width = (bits.Len64(word-1) + 1) / 2 * 2
	}
	return strings.Repeat("0", max(0, width-len(digits))) + digits
}

func (m *mask) Count() int { return m.set.Size() }

func (m *mask) GetBits() []int {
	if m.set.IsEmpty() {
		return nil
	}
	return m.set.List()
}

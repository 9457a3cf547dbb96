// SPDX-License-Identifier: Apache-2.0

package bitmask

import (
	"math/bits"
	"testing"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// foreign is a BitMask from somebody else, with bits out of range.
type foreign struct {
	BitMask
	list []int
}

func (f foreign) GetBits() []int { return f.list }

func TestForeignMasks(t *testing.T) {
	other := foreign{list: []int{-3, 1, 2, 70}}
	m, err := NewBitMask(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		got  any
		want any
	}{
		{"ToSet", ToSet(other), numa.SetOf(1, 2)},
		{"And", ToSet(And(m, other)), numa.SetOf(1)},
		{"Or", ToSet(Or(other, m)), numa.SetOf(0, 1, 2)},
		{"IsEqual", m.IsEqual(other), false},
		{"IsLessThan", m.IsLessThan(other), true},
		{"IsNarrowerThan", m.IsNarrowerThan(other), true},
		{"nil", ToSet(nil), numa.Set{}},
		{"nil mask", ToSet((*mask)(nil)), numa.Set{}},
		{"And nil", And(m, nil).IsEmpty(), true},
		{"IsEqual nil", NewEmptyBitMask().IsEqual(nil), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

// A mask that was handed out must not change with what it was made of.
func TestMasksAreTheirOwn(t *testing.T) {
	set := numa.SetOf(3)
	a := FromSet(set)
	b := And(a)
	if err := a.Add(4); err != nil {
		t.Fatal(err)
	}
	if ToSet(b) != set || ToSet(a) != numa.SetOf(3, 4) {
		t.Errorf("a is %v, b is %v", a, b)
	}
}

func TestErrorsChangeNothing(t *testing.T) {
	m, _ := NewBitMask(1)
	for _, err := range []error{m.Add(2, 64), m.Remove(1, -1)} {
		if err == nil || err.Error() != "bit number must be in range 0-63" {
			t.Errorf("got %v", err)
		}
	}
	if ToSet(m) != numa.SetOf(1) {
		t.Errorf("m became %v", m)
	}
	if none, err := NewBitMask(64); none != nil || err == nil {
		t.Errorf("NewBitMask(64) is %v, %v", none, err)
	}
}

func TestIterateIsBounded(t *testing.T) {
	for _, n := range []int{16, 17, 36, 64} {
		list := make([]int, n)
		for i := range list {
			list[i] = i
		}
		seen := map[uint64]bool{}
		size, last := 1, uint64(0)
		IterateBitMasks(list, func(m BitMask) {
			last = ToSet(m).Bits()
			if seen[last] {
				t.Fatalf("%d bits: mask %v comes twice", n, m)
			}
			seen[last] = true
			if m.Count() < size {
				t.Fatalf("%d bits: mask %v comes after larger ones", n, m)
			}
			size = m.Count()
		})
		if len(seen) != 65535 {
			t.Errorf("%d bits: %d masks, want 65535", n, len(seen))
		}
		if bits.OnesCount64(last) != n {
			t.Errorf("%d bits: the last mask has %d", n, bits.OnesCount64(last))
		}
	}
}

func TestIterateSkipsWhatIsNoNode(t *testing.T) {
	var got []string
	IterateBitMasks([]int{1, 64, -1, 0}, func(m BitMask) { got = append(got, ToSet(m).String()) })
	if want := []string{"1", "0", "0-1"}; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %v, want %v", got, want)
	}
}

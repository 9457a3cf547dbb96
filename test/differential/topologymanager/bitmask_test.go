// SPDX-License-Identifier: Apache-2.0

package topologymanager_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	theirmask "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"

	ourmask "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// mask is the part of both BitMask interfaces whose signatures are the same.
type mask interface {
	Add(...int) error
	Remove(...int) error
	Clear()
	Fill()
	IsEmpty() bool
	IsSet(int) bool
	AnySet([]int) bool
	String() string
	Count() int
	GetBits() []int
}

func TestMasksAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	bits := func() []int {
		list := make([]int, r.IntN(6))
		for i := range list {
			list[i] = r.IntN(64)
			if r.IntN(40) == 0 {
				list[i] = -1 + 65*r.IntN(2) // -1 or 64
			}
		}
		return list
	}
	state := func(m mask, err error, probe []int) string {
		return fmt.Sprint(m, m.Count(), m.GetBits(), m.GetBits() == nil, m.IsEmpty(), m.AnySet(probe), m.IsSet(3), m.IsSet(64), m.IsSet(-1), err)
	}
	our, their := ourmask.NewEmptyBitMask(), theirmask.NewEmptyBitMask()
	for range 20_000 {
		var ourErr, theirErr error
		list, probe := bits(), bits()
		our2, err := ourmask.NewBitMask(list...)
		their2, theirErr2 := theirmask.NewBitMask(list...)
		if fmt.Sprint(err) != fmt.Sprint(theirErr2) || (our2 == nil) != (their2 == nil) {
			t.Fatalf("NewBitMask(%v): ours %v %v, upstream's %v %v", list, our2, err, their2, theirErr2)
		}
		if err != nil {
			our2, their2 = ourmask.NewEmptyBitMask(), theirmask.NewEmptyBitMask()
		}
		switch r.IntN(9) {
		case 0, 1, 2:
			ourErr, theirErr = our.Add(list...), their.Add(list...)
		case 3:
			ourErr, theirErr = our.Remove(list...), their.Remove(list...)
		case 4:
			our.Or(our2, our2)
			their.Or(their2, their2)
		case 5:
			our.And(our2)
			their.And(their2)
		case 6:
			our, their = ourmask.Or(our, our2), theirmask.Or(their, their2)
		case 7:
			if r.IntN(5) == 0 {
				our.Fill()
				their.Fill()
			}
		case 8:
			our, their = ourmask.And(our2), theirmask.And(their2)
			if r.IntN(5) == 0 {
				our.Clear()
				their.Clear()
			}
		}
		if a, b := state(our, ourErr, probe), state(their, theirErr, probe); a != b {
			t.Fatalf("ours %s, upstream's %s", a, b)
		}
		a := fmt.Sprint(our.IsEqual(our2), our.IsNarrowerThan(our2), our.IsLessThan(our2), our.IsGreaterThan(our2), our.IsEqual(ourmask.And(our)))
		b := fmt.Sprint(their.IsEqual(their2), their.IsNarrowerThan(their2), their.IsLessThan(their2), their.IsGreaterThan(their2), their.IsEqual(theirmask.And(their)))
		if a != b {
			t.Fatalf("%v and %v: ours %s, upstream's %s", our, our2, a, b)
		}
	}
}

func TestMasksPrintAlike(t *testing.T) {
	var our, their mask = ourmask.NewEmptyBitMask(), theirmask.NewEmptyBitMask()
	for a := range 64 {
		for b := range 64 {
			for _, m := range []mask{our, their} {
				m.Clear()
				if err := m.Add(a, b); err != nil {
					t.Fatal(err)
				}
			}
			if our.String() != their.String() {
				t.Fatalf("bits %d and %d: ours %q, upstream's %q", a, b, our, their)
			}
		}
	}
}

func TestIterationAlike(t *testing.T) {
	lists := [][]int{nil, {5}, {0, 8}, {3, 1, 2}, {1, 1, 4}, {0, 2, 4, 6, 8, 63}}
	for n := range 13 {
		list := make([]int, n)
		for i := range list {
			list[i] = i
		}
		lists = append(lists, list)
	}
	for _, list := range lists {
		var our, their []string
		ourmask.IterateBitMasks(list, func(m ourmask.BitMask) { our = append(our, m.String()) })
		theirmask.IterateBitMasks(list, func(m theirmask.BitMask) { their = append(their, m.String()) })
		if !slices.Equal(our, their) {
			t.Errorf("%v: ours %v, upstream's %v", list, our, their)
		}
	}
}

func BenchmarkIterateBitMasks(b *testing.B) {
	list := make([]int, 16)
	for i := range list {
		list[i] = i
	}
	b.Run("bits=16/ours", func(b *testing.B) {
		for b.Loop() {
			ourmask.IterateBitMasks(list, func(ourmask.BitMask) {})
		}
	})
	b.Run("bits=16/upstream", func(b *testing.B) {
		for b.Loop() {
			theirmask.IterateBitMasks(list, func(theirmask.BitMask) {})
		}
	})
}

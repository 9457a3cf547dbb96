// SPDX-License-Identifier: Apache-2.0

// Package bitmask is the kubelet's exchange type for sets of NUMA nodes.
//
// The topology manager, its hint providers and the device manager hand each
// other masks of 64 bits, bit i standing for NUMA node i. Inside this project
// the value type numa.Set is used; a BitMask is its mutable, nillable face
// towards the rest of the kubelet. FromSet and ToSet convert.
//
// A BitMask that did not come from this package is welcome wherever a BitMask
// is taken: it is read through its GetBits method. Bits that a foreign mask
// claims outside 0-63 are ignored, and a nil mask counts as empty.
//
// # Example
//
//	m, _ := bitmask.NewBitMask(0, 2)
//	m.String()            // "0101"
//	m.Count()             // 2
//	bitmask.ToSet(m)      // numa.SetOf(0, 2), which prints as "0,2"
package bitmask

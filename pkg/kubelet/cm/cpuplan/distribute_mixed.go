// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"math/big"
	"slices"
)

// mixedShares is what each node gives when only whole cores are handed out and
// those on offer differ in size, as on hybrid processors or where a sibling is
// offline. It counts in CPUs. The kubelet has no rule for such machines: it
// takes the average for the size of every core.
//
// k nodes give equal parts when what each gives is more than nothing and differs
// from n/k by less than the largest core. The part of a node is the total of
// some of its cores that is closest to an even share of what is still needed,
// such that cores of the other nodes can give the rest exactly. The nodes with
// the fewest CPUs come first and of two totals as close the smaller is taken, so
// that what does not divide comes from the nodes that have most.
//
// Up to exactNodes nodes all combinations of k are weighed, by the same score as
// ever; beyond these only the k nodes with the most CPUs are looked at. If all
// nodes are to give, their parts may differ by more.
func (s *spread) mixedShares() []share {
	richest := s.richestFirst(nil)
	if s.everywhere {
		return s.mixed(richest)
	}
	for k := 1; k <= min(s.need, len(s.nodes)); k++ {
		if !s.exact {
			if shares := s.mixedEven(richest[:k]); shares != nil {
				return shares
			}
			continue
		}
		b := s.newBalance()
		base := make([]int, len(s.nodes))
		for combination := range combinations(len(s.nodes), k) {
			shares := s.mixedEven(s.richestFirst(combination))
			if shares == nil || !b.wants(s.inOneSocket(combination)) {
				continue
			}
			for i := range base {
				base[i] = shares[i].base
			}
			b.weigh(base, nil, 0)
		}
		if b.shares != nil {
			return b.shares
		}
	}
	return nil
}

// mixedEven is mixed where all the nodes give, and equal parts; otherwise nil.
func (s *spread) mixedEven(nodes []int) []share {
	k := len(nodes)
	uneven := func(part int) bool { return s.need-part*k >= s.largest*k }
	// Soon said of a node that has too little.
	if uneven(s.nodes[nodes[k-1]].groups) {
		return nil
	}
	shares := s.mixed(nodes)
	if shares == nil {
		return nil
	}
	for _, i := range nodes {
		part := shares[i].base
		if part == 0 || uneven(part) || part*k-s.need >= s.largest*k {
			return nil
		}
	}
	return shares
}

// mixed is what each of the nodes gives, which come the one with most CPUs
// first, or nil if their cores do not add up to what is needed.
func (s *spread) mixed(nodes []int) []share {
	total := 0
	for _, i := range nodes {
		total += s.nodes[i].groups
	}
	if total < s.need {
		return nil
	}
	// Bit n of reach[j] says that some cores of the first j nodes have n CPUs.
	reach := make([]*big.Int, len(nodes)+1)
	reach[0] = big.NewInt(1)
	for j, i := range nodes {
		reach[j+1] = s.nodes[i].addTo(reach[j])
	}
	if reach[len(nodes)].Bit(s.need) == 0 {
		return nil
	}
	shares := make([]share, len(s.nodes))
	need := s.need
	for j := len(nodes) - 1; j >= 0; j-- {
		own := s.nodes[nodes[j]].addTo(big.NewInt(1))
		// There is such a total, or need would not be in reach.
		part := closest(need, j+1, func(n int) bool { return own.Bit(n) == 1 && reach[j].Bit(need-n) == 1 })
		shares[nodes[j]].base = part
		need -= part
	}
	return shares
}

// addTo returns the totals of what the given totals are of and some of the
// node's cores.
func (n *supply) addTo(totals *big.Int) *big.Int {
	sum := new(big.Int).Set(totals)
	var shifted big.Int
	for size, count := range slices.All(n.cores) {
		// Any number up to count is a sum of some of 1, 2, 4, ... and the rest.
		for step := 1; count > 0; step *= 2 {
			step = min(step, count)
			sum.Or(sum, shifted.Lsh(sum, uint(size*step)))
			count -= step
		}
	}
	return sum
}

// closest is the number from 0 to total that is closest to total/parts among
// those that are allowed, and the smaller of two; 0 if none is.
func closest(total, parts int, allowed func(int) bool) int {
	below := total / parts
	above := below + 1
	for below >= 0 || above <= total {
		if below >= 0 && (above > total || total-below*parts <= above*parts-total) {
			if allowed(below) {
				return below
			}
			below--
			continue
		}
		if allowed(above) {
			return above
		}
		above++
	}
	return 0
}

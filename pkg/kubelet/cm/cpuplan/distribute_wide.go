// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"cmp"
	"slices"
)

// wideShares does what exactShares does without weighing every combination.
//
// The standard deviation of what is left grows with the sum of squares of what
// is left, and with equal parts that sum is smallest for the k nodes that have
// most; of equal nodes the first are the first combination in order. What the
// division leaves over is taken group by group from the node that has most left.
//
// Differences from weighing all: arithmetic is exact, where the kubelet's score
// takes values for equal that differ in the fourth decimal, on nodes whose free
// CPUs differ by hundreds. A node can give any number of the left over groups,
// where the kubelet tries equal parts of subsets only; the balance is never
// worse. With bySocket a combination is not preferred for having a small node,
// which lowers the even share for all.
func (s *spread) wideShares(k int) []share {
	if s.bySocket {
		if shares := s.bestSocket(k); shares != nil {
			return shares
		}
	}
	return s.richest(s.richestFirst(nil), k)
}

// bestSocket is the best of the shares of k nodes in one socket, or nil.
func (s *spread) bestSocket(k int) []share {
	sockets := map[int][]int{}
	for i := range s.nodes {
		if socket := s.nodes[i].socket; socket >= 0 {
			sockets[socket] = append(sockets[socket], i)
		}
	}
	var best []share
	// By node and not by socket, so that the order is the nodes' own.
	for i := range s.nodes {
		members := sockets[s.nodes[i].socket]
		if len(members) < k || members[0] != i {
			continue
		}
		shares := s.richest(s.richestFirst(members), k)
		if shares != nil && (best == nil || s.squares(shares) < s.squares(best)) {
			best = shares
		}
	}
	return best
}

// richestFirst orders the given nodes, or all if there are none, by what they
// have, the most first.
func (s *spread) richestFirst(nodes []int) []int {
	nodes = slices.Clone(nodes)
	if nodes == nil {
		for i := range s.nodes {
			nodes = append(nodes, i)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(s.nodes[b].groups, s.nodes[a].groups) })
	return nodes
}

// richest is the shares of the first k of the nodes, or nil if they do not have
// what is needed.
func (s *spread) richest(nodes []int, k int) []share {
	nodes = nodes[:k]
	total := 0
	for _, i := range nodes {
		total += s.nodes[i].groups
	}
	even, least := s.need/k, s.nodes[nodes[k-1]].groups
	if total < s.need || even > least && !s.bySocket {
		return nil
	}
	even = min(even, least)
	base := make([]int, len(s.nodes))
	for _, i := range nodes {
		base[i] = even
	}
	return s.fromRichest(base, nodes, s.need-even*k)
}

// fromRichest adds rest groups to what the nodes give already, each from the
// giver that has most left then; of equals from one that gave none of the rest,
// and then from the first in order.
func (s *spread) fromRichest(base, givers []int, rest int) []share {
	shares := make([]share, len(base))
	for i := range base {
		shares[i].base = base[i]
	}
	givers = slices.Sorted(slices.Values(givers)) // the order of the nodes
	left := func(i int) int { return s.nodes[i].groups - shares[i].base - shares[i].extra }
	for range rest {
		best := givers[0]
		for _, i := range givers[1:] {
			if l := cmp.Compare(left(i), left(best)); l > 0 || l == 0 && shares[i].extra == 0 && shares[best].extra > 0 {
				best = i
			}
		}
		shares[best].extra++
	}
	return shares
}

// squares is the sum of squares of what all nodes have left, in groups.
func (s *spread) squares(shares []share) int64 {
	var sum int64
	for i, sh := range shares {
		sum += square(s.nodes[i].groups - sh.base - sh.extra)
	}
	return sum
}

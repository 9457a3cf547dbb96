// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"iter"
	"math"
)

// exactNodes is up to how many nodes all combinations are weighed: at most 70
// combinations of 8 nodes, with at most 256 subsets for what is left over.
const exactNodes = 8

// exactShares weighs every combination of k nodes and every subset of it that
// can take what the division leaves over. It returns nil if no combination has
// what is needed.
func (s *spread) exactShares(k int) []share {
	b := s.newBalance()
	base := make([]int, len(s.nodes))
	for combination := range combinations(len(s.nodes), k) {
		total, least := 0, s.need
		for _, i := range combination {
			total += s.nodes[i].groups
			least = min(least, s.nodes[i].groups)
		}
		each := s.need / k
		if total < s.need || each > least && !s.bySocket {
			continue
		}
		each = min(each, least)
		if !b.wants(s.inOneSocket(combination)) {
			continue
		}
		clear(base)
		for _, i := range combination {
			base[i] = each
		}
		b.weigh(base, combination, s.need-each*k)
	}
	return b.shares
}

func (s *spread) inOneSocket(nodes []int) bool {
	socket := s.nodes[nodes[0]].socket
	for _, i := range nodes {
		if s.nodes[i].socket != socket {
			return false
		}
	}
	return socket >= 0
}

// balance keeps the best of the shares that it has seen: the first among those
// with the lowest score.
//
// The score is the standard deviation of the free CPUs that all nodes have
// left, as KEP-2902 defines it, with the kubelet's rounding of the mean and of
// the result to three decimals, counted in thousandths. The sum is the same for
// all shares, so that the score only grows with the sum of squares, and what has
// no smaller sum need not be rounded.
type balance struct {
	s         *spread
	shares    []share
	oneSocket bool
	score     int64
	squares   int64
}

func (s *spread) newBalance() *balance { return &balance{s: s} }

// wants says whether shares on nodes in one socket, or in several, can win. The
// first in one socket beats all before it.
func (b *balance) wants(oneSocket bool) bool {
	if !b.s.bySocket || oneSocket == b.oneSocket {
		return true
	}
	if oneSocket {
		b.shares, b.oneSocket = nil, true
	}
	return oneSocket
}

// weigh considers all ways to add rest groups to what the nodes give already:
// groups go in turn to the members of a subset of the givers, those with
// nothing left passed over. Wide subsets come first, so that they win ties.
func (b *balance) weigh(base, givers []int, rest int) {
	nodes := b.s.nodes
	var squares int64
	for i := range nodes {
		squares += square(nodes[i].groups - base[i])
	}
	if rest == 0 {
		b.consider(squares, base, nil, nil)
		return
	}
	var left, extra [exactNodes]int
	var able []int
	for _, i := range givers {
		if nodes[i].groups > base[i] {
			able = append(able, i)
		}
	}
	for size := len(able); size > 0; size-- {
		for subset := range combinations(len(able), size) {
			total := 0
			for j, a := range subset {
				left[j] = nodes[able[a]].groups - base[able[a]]
				total += left[j]
			}
			// The kubelet compares CPUs where it hands out groups, and does not
			// end when a subset has the CPUs but not the groups.
			if total < rest {
				continue
			}
			inTurn(left[:size], extra[:size], rest)
			after := squares
			for j := range subset {
				after += square(left[j]-extra[j]) - square(left[j])
			}
			if b.improves(after) {
				b.consider(after, base, extra[:size], func(j int) int { return able[subset[j]] })
			}
		}
	}
}

// inTurn hands out rest groups in turn to those that have one left, which in
// sum have at least rest, and says what each gives.
func inTurn(left, extra []int, rest int) {
	clear(extra)
	for rest > 0 {
		able, least := 0, rest
		for j := range left {
			if l := left[j] - extra[j]; l > 0 {
				able++
				least = min(least, l)
			}
		}
		rounds := min(rest/able, least)
		for j := range left {
			if left[j] == extra[j] || rest == 0 {
				continue
			}
			give := max(rounds, 1)
			extra[j] += give
			rest -= give
		}
	}
}

// improves reports whether shares with this sum of squares can win.
func (b *balance) improves(squares int64) bool { return b.shares == nil || squares < b.squares }

// consider keeps shares if their score is lower than the best so far.
func (b *balance) consider(squares int64, base, extra []int, node func(int) int) {
	if !b.improves(squares) {
		return
	}
	score := b.s.score(squares)
	if b.shares != nil && score >= b.score {
		return
	}
	if b.shares == nil {
		b.shares = make([]share, len(base))
	}
	for i := range base {
		b.shares[i] = share{base: base[i]}
	}
	for j := range extra {
		b.shares[node(j)].extra = extra[j]
	}
	b.score, b.squares = score, squares
}

// score is the rounded standard deviation, in thousandths of a CPU, of what the
// nodes have left when the squares of that, in groups, add up to squares.
func (s *spread) score(squares int64) int64 {
	n, sum := int64(len(s.nodes)), int64(-s.need)
	for i := range s.nodes {
		sum += int64(s.nodes[i].groups)
	}
	sum *= int64(s.group)
	squares *= int64(s.group) * int64(s.group)
	mean := int64(math.Round(float64(sum) / float64(n) * 1000))
	deviations := 1_000_000*squares - 2_000*mean*sum + n*mean*mean
	return int64(math.Round(math.Sqrt(float64(deviations) / float64(n))))
}

func square(n int) int64 { return int64(n) * int64(n) }

// combinations yields the subsets of size k, at least 1, of 0 to n-1, each in
// ascending order and all in the order of a dictionary. The slice is reused.
func combinations(n, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		c := make([]int, k)
		for i := range c {
			c[i] = i
		}
		for yield(c) {
			i := k - 1
			for i >= 0 && c[i] == n-k+i {
				i--
			}
			if i < 0 {
				return
			}
			c[i]++
			for j := i + 1; j < k; j++ {
				c[j] = c[j-1] + 1
			}
		}
	}
}

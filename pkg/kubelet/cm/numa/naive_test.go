// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// naiveMerge is the definition in the package comment, word by word: it walks
// through all choices and keeps the best. It looks at them in the order in
// which the lists stand.
func naiveMerge(all Set, resources []Resource, opts MergeOptions) Hint {
	lists := make([][]Hint, len(resources))
	for i, r := range resources {
		for _, h := range r.choices() {
			if !opts.SingleNode || h.Preferred && (h.Any || h.Nodes.Size() == 1) {
				lists[i] = append(lists[i], h)
			}
		}
	}
	target := neededSize(lists)
	var best *Hint
	for _, choice := range product(lists) {
		result := Hint{Nodes: all, Preferred: true}
		var first *Set
		for _, h := range choice {
			if !h.Preferred {
				result.Preferred = false
			}
			if h.Any {
				continue
			}
			if first == nil {
				first = &h.Nodes
			}
			if h.Nodes != *first {
				result.Preferred = false
			}
			result.Nodes = result.Nodes.Intersection(h.Nodes)
		}
		if !result.Nodes.IsEmpty() && (best == nil || naiveBetter(result, *best, target, opts)) {
			best = &result
		}
	}
	if best != nil && best.Preferred {
		return *best
	}
	if nodes, ok := naiveTogether(all, resources, opts); ok {
		return Hint{Nodes: nodes}
	}
	if best == nil {
		return Hint{Nodes: all}
	}
	return *best
}

func product(lists [][]Hint) [][]Hint {
	choices := [][]Hint{nil}
	for _, list := range lists {
		var longer [][]Hint
		for _, choice := range choices {
			for _, h := range list {
				longer = append(longer, append(choice[:len(choice):len(choice)], h))
			}
		}
		choices = longer
	}
	return choices
}

func naiveBetter(a, b Hint, target int, opts MergeOptions) bool {
	if a.Preferred != b.Preferred {
		return a.Preferred
	}
	m, n := a.Nodes.Size(), b.Nodes.Size()
	if m != n {
		switch {
		case a.Preferred:
			return m < n
		case m <= target && n <= target:
			return m > n
		case m > target && n > target:
			return m < n
		default:
			return m <= target
		}
	}
	if d := opts.Distances; d != nil && d.Mean(a.Nodes) != d.Mean(b.Nodes) {
		return d.Mean(a.Nodes) < d.Mean(b.Nodes)
	}
	return naiveTie(a.Nodes, b.Nodes, opts)
}

// naiveTie is the order of sets of the same size that are equally good.
func naiveTie(a, b Set, opts MergeOptions) bool {
	x, y := naiveLoad(a, opts.Usage), naiveLoad(b, opts.Usage)
	switch {
	case opts.TieBreak == MostAllocated && x != y:
		return x > y
	case opts.TieBreak == LeastAllocated && x != y:
		return x < y
	}
	return a.Bits() < b.Bits()
}

func naiveLoad(s Set, u *Usage) (millionths int) {
	for _, id := range s.List() {
		millionths += int(math.Round(u.Allocated(id) * 1e6))
	}
	return millionths
}

// naiveTogether is the rule of locality.go, over all sets of nodes.
func naiveTogether(all Set, resources []Resource, opts MergeOptions) (Set, bool) {
	if opts.Locality == nil || opts.SingleNode {
		return Set{}, false
	}
	offered := func(r Resource, s Set) (offered, picky bool) {
		picky = true
		for _, h := range r.choices() {
			picky = picky && !h.Any
			offered = offered || h.Any || h.Nodes == s
		}
		return offered, picky
	}
	var best *Set
	for s := range all.Subsets() {
		everywhere, anyPicky := true, false
		for _, r := range resources {
			if !r.staysTogether() {
				continue
			}
			if !r.NoPreference && len(r.Hints) == 0 {
				return Set{}, false
			}
			offered, picky := offered(r, s)
			everywhere, anyPicky = everywhere && offered, anyPicky || picky
		}
		if everywhere && anyPicky && (best == nil || naiveNearer(s, *best, all, resources, opts)) {
			best = &s
		}
	}
	if best == nil {
		return Set{}, false
	}
	return *best, true
}

func naiveNearer(a, b, all Set, resources []Resource, opts MergeOptions) bool {
	if a.Size() != b.Size() {
		return a.Size() < b.Size()
	}
	if x, y := opts.Locality.Mean(a), opts.Locality.Mean(b); x != y {
		return x < y
	}
	if x, y := naiveAway(a, all, resources, opts), naiveAway(b, all, resources, opts); x != y {
		return x < y
	}
	return naiveTie(a, b, opts)
}

func naiveAway(s, all Set, resources []Resource, opts MergeOptions) (sum uint64) {
	for _, r := range resources {
		if _, any := naiveAny(r); any || r.staysTogether() {
			continue
		}
		narrowest, _ := naiveAny(r)
		var means []uint64
		for _, h := range r.Hints {
			if there := h.Nodes.Intersection(all); h.Nodes.Size() == narrowest && !there.IsEmpty() {
				var total, pairs uint64
				for _, from := range s.List() {
					for _, to := range there.List() {
						d, _ := opts.Locality.Between(from, to)
						total, pairs = total+d, pairs+1
					}
				}
				means = append(means, total*1000/pairs)
			}
		}
		if len(means) > 0 {
			sum += slices.Min(means)
		}
	}
	return sum
}

// naiveAny is the size of the narrowest mask, and whether anything is accepted.
func naiveAny(r Resource) (narrowest int, any bool) {
	narrowest = MaxNodes + 1
	for _, h := range r.choices() {
		if h.Any {
			any = true
		} else {
			narrowest = min(narrowest, h.Nodes.Size())
		}
	}
	return narrowest, any
}

// problem is a random input of Merge.
type problem struct {
	all       Set
	resources []Resource
	opts      MergeOptions
}

func (p problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nodes %s, options %+v\n", p.all, p.opts)
	for _, r := range p.resources {
		fmt.Fprintf(&b, "  %s noPreference=%t %v\n", r.Name, r.NoPreference, r.Hints)
	}
	return b.String()
}

// randomProblem draws from few nodes, few masks and all the odd cases, so that
// ties, contradictions and empty results are frequent.
func randomProblem(r *rand.Rand) problem {
	var p problem
	n := 1 + r.IntN(5)
	for len(p.all.List()) < n {
		id := r.IntN(n + 3) // IDs may have gaps
		p.all = p.all.Union(SetOf(id))
	}
	names := []string{"cpu", "memory", "hugepages-2Mi", "example.com/gpu", "example.com/nic"}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i := range r.IntN(5) {
		res := Resource{Name: names[i]}
		switch r.IntN(12) {
		case 0:
			res.NoPreference = true
		case 1: // cannot be had
		default:
			likely := r.IntN(4) // how likely a hint is preferred, in thirds
			for range 1 + r.IntN(5) {
				h := Hint{Preferred: r.IntN(3) < likely}
				switch r.IntN(12) {
				case 0:
					h.Any = true
				case 1:
					h.Nodes = SetFromBits(r.Uint64() & 0x3ff) // offline nodes too
				default:
					h.Nodes = SetFromBits(r.Uint64()).Intersection(p.all)
				}
				res.Hints = append(res.Hints, h)
			}
		}
		p.resources = append(p.resources, res)
	}
	p.opts.SingleNode = r.IntN(4) == 0
	if r.IntN(2) == 0 {
		p.opts.Distances = randomDistances(r, p.all)
	}
	if r.IntN(2) == 0 {
		p.opts.TieBreak = TieBreak(r.IntN(3))
		p.opts.Usage = randomUsage(r, p.all)
	}
	if r.IntN(3) == 0 {
		p.opts.Locality = randomDistances(r, p.all)
	}
	return p
}

func randomDistances(r *rand.Rand, all Set) *Distances {
	ids := all.List()
	rows := make([][]uint64, len(ids))
	for i := range ids {
		rows[i] = make([]uint64, len(ids))
		for j := range ids {
			rows[i][j] = uint64(20 + r.IntN(3)) // asymmetric now and then
		}
		rows[i][i] = 10
	}
	d, err := NewDistances(ids, rows)
	if err != nil {
		panic(err)
	}
	return d
}

// randomUsage has few levels, so that ties stay.
func randomUsage(r *rand.Rand, all Set) *Usage {
	var shares []NodeUsage
	for id := range all.All() {
		for _, name := range []string{"cpu", "memory"} {
			shares = append(shares, NodeUsage{Node: id, Resource: name, Allocatable: uint64(r.IntN(3)), Free: uint64(r.IntN(3))})
		}
	}
	return NewUsage(shares)
}

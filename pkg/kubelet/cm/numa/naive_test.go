// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// naiveMerge is the definition in the package comment, word by word: it walks
// through all choices and keeps the best. It looks at them in the order in
// which the lists stand.
func naiveMerge(all Set, resources []Resource, opts MergeOptions) Hint {
	lists := make([][]Hint, len(resources))
	for i, r := range resources {
		lists[i] = r.choices(opts.SingleNode)
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
		if !result.Nodes.IsEmpty() && (best == nil || naiveBetter(result, *best, target, opts.Distances)) {
			best = &result
		}
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

func naiveBetter(a, b Hint, target int, distances *Distances) bool {
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
	if distances != nil && distances.Mean(a.Nodes) != distances.Mean(b.Nodes) {
		return distances.Mean(a.Nodes) < distances.Mean(b.Nodes)
	}
	return a.Nodes.Bits() < b.Nodes.Bits()
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
	for i := range r.IntN(5) {
		res := Resource{Name: fmt.Sprintf("r%d", i)}
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

// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"cmp"
	"slices"
)

// maxFitSteps bounds the search of Fit, which is for messages.
const maxFitSteps = 1 << 12

// Fit returns the fewest nodes that could serve all demands on an idle machine,
// the richest ones and of these the lowest. It is false when not even all nodes
// could. On machines of many nodes that are unlike in several resources it may
// return a set that is not the narrowest.
func Fit(demands []Demand) (Set, bool) {
	var nodes []int
	supply := make([][MaxNodes]uint64, len(demands))
	narrowest := 1 // no set with fewer nodes serves each demand alone
	for i, d := range demands {
		if d.Allocatable() < d.Asked {
			return Set{}, false
		}
		amounts := make([]uint64, 0, len(d.Nodes))
		for _, s := range d.Nodes {
			supply[i][s.Node] = s.Allocatable
			amounts = append(amounts, s.Allocatable)
			if s.Allocatable > 0 && !slices.Contains(nodes, s.Node) {
				nodes = append(nodes, s.Node)
			}
		}
		slices.Sort(amounts)
		count, sum := 0, uint64(0)
		for _, amount := range slices.Backward(amounts) {
			if sum >= d.Asked {
				break
			}
			sum += amount
			count++
		}
		narrowest = max(narrowest, count)
	}
	richness := func(node int) (sum float64) {
		for i, d := range demands {
			sum += min(1, float64(supply[i][node])/float64(max(1, d.Asked)))
		}
		return sum
	}
	slices.SortFunc(nodes, func(a, b int) int {
		return cmp.Or(cmp.Compare(richness(b), richness(a)), cmp.Compare(a, b))
	})
	serves := func(set Set) bool {
		for i, d := range demands {
			var sum uint64
			for node := range set.All() {
				sum += supply[i][node]
			}
			if sum < d.Asked {
				return false
			}
		}
		return true
	}
	steps := 0
	var search func(from, left int, chosen Set) (Set, bool)
	search = func(from, left int, chosen Set) (Set, bool) {
		if left == 0 {
			return chosen, serves(chosen)
		}
		for i := from; i <= len(nodes)-left && steps < maxFitSteps; i++ {
			steps++
			if found, ok := search(i+1, left-1, chosen.Union(SetOf(nodes[i]))); ok {
				return found, true
			}
		}
		return Set{}, false
	}
	for size := narrowest; size <= len(nodes); size++ {
		steps = 0
		if found, ok := search(0, size, Set{}); ok {
			return found, true
		}
	}
	return Set{}, false // without demands
}

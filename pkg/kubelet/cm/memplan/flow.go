// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"math/bits"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// charge is an amount of one resource that lies somewhere on a set of nodes.
type charge struct {
	nodes numa.Set
	size  uint64
}

// joined adds up charges on the same nodes, the narrow ones first. Charges of
// nothing are left out.
func joined(charges []charge) []charge {
	sums := map[numa.Set]uint64{}
	for _, c := range charges {
		if c.size > 0 && !c.nodes.IsEmpty() {
			sums[c.nodes] = add(sums[c.nodes], c.size)
		}
	}
	list := make([]charge, 0, len(sums))
	for nodes, size := range sums {
		list = append(list, charge{nodes, size})
	}
	slices.SortFunc(list, func(a, b charge) int { return compareMasks(a.nodes, b.nodes) })
	return list
}

// capacities is what each node can give of one resource, by ID.
type capacities [numa.MaxNodes]uint64

func (c *capacities) of(nodes numa.Set) uint64 {
	var sum uint64
	for w := nodes.Bits(); w != 0; w &= w - 1 {
		sum = add(sum, c[bits.TrailingZeros64(w)])
	}
	return sum
}

// most is the most of the nodes that the charges can take, however they come
// to lie.
func (c *capacities) most(nodes numa.Set, charges []charge) uint64 {
	inside := make([]charge, 0, len(charges))
	for _, ch := range charges {
		inside = append(inside, charge{ch.nodes.Intersection(nodes), ch.size})
	}
	var sum uint64
	for _, placed := range c.place(joined(inside)).placed {
		sum = add(sum, placed)
	}
	return sum
}

// place finds nodes for as much of the charges as possible: a maximum flow from
// them to the nodes (Edmonds and Karp, 1972, after a greedy start, the lowest
// node first). The charges are in the order of joined.
func (c *capacities) place(charges []charge) flow {
	f := flow{sources: charges, left: *c, placed: make([]uint64, len(charges)), taken: make([]capacities, len(charges))}
	for i, source := range charges {
		want := source.size
		for id := range source.nodes.All() {
			got := min(want, f.left[id])
			f.taken[i][id] += got
			f.left[id] -= got
			want -= got
		}
		for want > 0 {
			got := f.augment(i, want)
			if got == 0 {
				break
			}
			want -= got
		}
		f.placed[i] = source.size - want
	}
	return f
}

// flow is how much of each source lies on each node and in all, and what the
// nodes have left.
type flow struct {
	sources []charge
	taken   []capacities
	placed  []uint64
	left    capacities
}

// augment finds nodes for up to want more of a source by moving others aside:
// a shortest path from the source to a node with something left, over sources
// that have something on a node and may lie on others.
func (f *flow) augment(source int, want uint64) uint64 {
	reached := f.sources[source].nodes
	via := map[int]int{} // by node, the source that came there
	for id := range reached.All() {
		via[id] = source
	}
	movedFrom := map[int]int{} // by source, the node that it is moved from
	for queue := reached.List(); len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		if f.left[id] > 0 {
			return f.move(source, id, want, via, movedFrom)
		}
		for i, other := range f.sources {
			if _, known := movedFrom[i]; known || i == source || f.taken[i][id] == 0 {
				continue
			}
			movedFrom[i] = id
			for next := range other.nodes.Difference(reached).All() {
				via[next] = i
				queue = append(queue, next)
			}
			reached = reached.Union(other.nodes)
		}
	}
	return 0
}

// move shifts what fits along the path that ends at the node.
func (f *flow) move(source, end int, want uint64, via, movedFrom map[int]int) uint64 {
	amount := min(want, f.left[end])
	for id := end; via[id] != source; id = movedFrom[via[id]] {
		amount = min(amount, f.taken[via[id]][movedFrom[via[id]]])
	}
	f.left[end] -= amount
	for id := end; ; {
		i := via[id]
		f.taken[i][id] += amount
		if i == source {
			return amount
		}
		id = movedFrom[i]
		f.taken[i][id] -= amount
	}
}

func overlap(a, b numa.Set) bool { return !a.Intersection(b).IsEmpty() }

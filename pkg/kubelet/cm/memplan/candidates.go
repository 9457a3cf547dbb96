// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"cmp"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

const (
	// completeNodes is up to how many nodes all sets of nodes are tried.
	completeNodes = 12
	// maxMasks and maxNarrowest bound, beyond that, how many sets of one size
	// are tried: of any size, and of the narrowest size that could hold the
	// request, to which the preferred hints belong.
	maxMasks     = 1<<completeNodes - 1
	maxNarrowest = 1<<16 - 1
	// maxSteps bounds one search for a set of nodes that is large enough.
	maxSteps = 1 << 14
)

// query is a request with what each node can give for it, as vectors: entry r
// of a vector is about resources[r].
type query struct {
	host      Host
	resources []string
	want      []uint64
	offers    []offer
	// ended are the blocks of the pod's standard init containers that have ended
	// when what is planned runs. The offers are without them.
	ended []Block
	// capable are the nodes that can ever give something.
	capable numa.Set
	// idle is what a node has when nobody else is there, free what it is sure to
	// have beside everything that may come to lie on it; by node ID.
	idle, free map[int][]uint64
}

func (h Host) query(request podplan.Memory, t tenant) query {
	q := query{host: h, resources: sortedNames(request), idle: map[int][]uint64{}, free: map[int][]uint64{}}
	q.capable = h.capable(q.resources)
	record := h.records.Pod(t.uid)
	for _, name := range t.ended {
		q.ended = append(q.ended, record.Containers[name]...)
	}
	for _, name := range q.resources {
		want := request[name]
		o := h.ledger(name, t).offer(want)
		q.want = append(q.want, want)
		q.offers = append(q.offers, o)
		for id := range h.machine.ids.All() {
			q.idle[id] = append(q.idle[id], h.machine.nodes[id][name].Allocatable)
			q.free[id] = append(q.free[id], o.capacities[id]-min(o.capacities[id], load(numa.SetOf(id), o.charges)))
		}
	}
	return q
}

// hints lists the sets of nodes that can hold the request now, by growing size.
// The preferred ones are as narrow as the narrowest set that could hold it on
// an idle machine. Nodes without CPUs are left out as long as others will do.
func (q query) hints() []numa.Hint {
	narrowest, among := q.narrowest()
	if narrowest == 0 {
		return nil
	}
	masks := q.masks(among, narrowest, narrowest)
	if len(masks) == 0 && among != q.capable {
		// How many nodes with CPUs it takes tells nothing about these.
		masks = q.masks(q.capable, 2, narrowest)
	}
	hints := make([]numa.Hint, len(masks))
	for i, mask := range masks {
		hints[i] = numa.Hint{Nodes: mask, Preferred: mask.Size() == narrowest && mask.IsSubsetOf(among)}
	}
	return hints
}

// local is the nodes that can give something and have CPUs.
func (q query) local() numa.Set { return q.capable.Intersection(q.host.machine.withCPUs) }

// masks lists the single nodes and the sets of at least from nodes, out of the
// given ones, that can hold the request now.
func (q query) masks(nodes numa.Set, from, narrowest int) []numa.Set {
	var masks []numa.Set
	for id := range nodes.All() {
		if one := numa.SetOf(id); q.fits(one) {
			masks = append(masks, one)
		}
	}
	for _, o := range q.offers {
		nodes = nodes.Difference(o.closed)
	}
	ids := nodes.List()
	for size := max(2, from); size <= len(ids); size++ {
		masks = q.appendSets(masks, ids, size, narrowest)
	}
	return masks
}

// appendSets appends the sets of size nodes out of ids that hold the request:
// all of them or, when there are too many to try, the runs of neighbours and the
// sets on which something lies already and, if none of these will do, one set
// found by searching.
func (q query) appendSets(masks []numa.Set, ids []int, size, narrowest int) []numa.Set {
	limit := maxMasks
	if size == narrowest {
		limit = maxNarrowest
	}
	if len(ids) <= completeNodes || combinations(len(ids), size, limit) <= limit {
		return q.appendAll(masks, ids, size)
	}
	before := len(masks)
	try := func(mask numa.Set) {
		if !slices.Contains(masks[before:], mask) && q.fits(mask) {
			masks = append(masks, mask)
		}
	}
	for first := 0; first+size <= len(ids); first++ {
		try(numa.SetOf(ids[first : first+size]...))
	}
	for _, o := range q.offers {
		for _, c := range o.charges {
			if c.nodes.Size() == size && c.nodes.IsSubsetOf(numa.SetOf(ids...)) {
				try(c.nodes)
			}
		}
	}
	if len(masks) == before {
		if mask, ok := q.search(q.free, ids, size); ok {
			try(mask)
		}
	}
	return masks
}

// appendAll appends every set of size nodes out of ids that holds the request.
func (q query) appendAll(masks []numa.Set, ids []int, size int) []numa.Set {
	// sums[d] is what the first d chosen nodes have free.
	sums := make([][]uint64, size+1)
	for d := range sums {
		sums[d] = make([]uint64, len(q.want))
	}
	free := make([][]uint64, len(ids))
	for i, id := range ids {
		free[i] = q.free[id]
	}
	var walk func(depth, from int, chosen numa.Set)
	walk = func(depth, from int, chosen numa.Set) {
		if depth == size {
			if q.fitsWith(sums[depth], chosen) {
				masks = append(masks, chosen)
			}
			return
		}
		for i := from; i <= len(ids)-(size-depth); i++ {
			for r, amount := range free[i] {
				sums[depth+1][r] = add(sums[depth][r], amount)
			}
			walk(depth+1, i+1, chosen.Union(numa.SetOf(ids[i])))
		}
	}
	walk(0, 0, numa.Set{})
	return masks
}

// fits reports whether the nodes have room for the request.
func (q query) fits(nodes numa.Set) bool {
	for r, o := range q.offers {
		if more := q.notTakenOver(nodes, r); len(more) > 0 {
			if !o.beside(nodes, more) {
				return false
			}
		} else if !o.on(nodes) {
			return false
		}
	}
	return true
}

// fitsWith is fits for nodes, none of them closed, of which the sum of what each
// is sure to have is known.
func (q query) fitsWith(sums []uint64, nodes numa.Set) bool {
	if len(q.ended) > 0 {
		return q.fits(nodes)
	}
	for r, o := range q.offers {
		if sums[r] >= q.want[r] {
			if !o.spares(nodes) {
				return false
			}
		} else if !o.on(nodes) {
			return false
		}
	}
	return true
}

// notTakenOver is what the pod's ended init containers go on holding when the
// request is on the nodes: what it does not have again of them.
func (q query) notTakenOver(nodes numa.Set, r int) []charge {
	var left []charge
	want := q.want[r]
	for _, b := range q.ended {
		if b.Resource != q.resources[r] {
			continue
		}
		size := b.Size
		if b.Nodes.IsSubsetOf(nodes) {
			taken := min(want, size)
			want, size = want-taken, size-taken
		}
		if size > 0 {
			left = append(left, charge{b.Nodes, size})
		}
	}
	return left
}

// narrowest is the smallest number of nodes that could hold the request on an
// idle machine, 0 if all of them could not. With one resource it is exact; with
// several it is exact unless the search for a set runs into maxSteps, which
// takes more than a dozen nodes that are unlike in every resource. Nodes without
// CPUs count only if the others could not hold it all together; the answer
// tells which nodes counted.
func (q query) narrowest() (int, numa.Set) {
	for _, among := range []numa.Set{q.local(), q.capable} {
		ids := among.List()
		for size := 1; size <= len(ids); size++ {
			if _, ok := q.search(q.idle, ids, size); ok {
				return size, among
			}
		}
	}
	return 0, numa.Set{}
}

// search looks for size nodes out of ids that together have what is wanted of
// amounts. It tries the richest nodes first and leaves a branch when not even
// the richest that are left could complete it.
func (q query) search(amounts map[int][]uint64, ids []int, size int) (numa.Set, bool) {
	order := slices.Clone(ids)
	slices.SortStableFunc(order, func(a, b int) int { return q.compareRichness(amounts[a], amounts[b]) })
	// best[r][n] is the most that any n nodes have of resource r.
	best := make([][]uint64, len(q.want))
	for r := range best {
		column := make([]uint64, len(ids))
		for i, id := range ids {
			column[i] = amounts[id][r]
		}
		slices.Sort(column)
		best[r] = make([]uint64, 1, size+1)
		for n := 1; n <= size; n++ {
			best[r] = append(best[r], add(best[r][n-1], column[len(column)-n]))
		}
	}
	steps := 0
	var walk func(from, left int, missing []uint64, chosen numa.Set) (numa.Set, bool)
	walk = func(from, left int, missing []uint64, chosen numa.Set) (numa.Set, bool) {
		for r, m := range missing {
			if m > best[r][left] {
				return numa.Set{}, false
			}
		}
		if left == 0 {
			return chosen, true
		}
		for i := from; i <= len(order)-left && steps < maxSteps; i++ {
			steps++
			rest := make([]uint64, len(missing))
			for r, m := range missing {
				rest[r] = m - min(m, amounts[order[i]][r])
			}
			if found, ok := walk(i+1, left-1, rest, chosen.Union(numa.SetOf(order[i]))); ok {
				return found, true
			}
		}
		return numa.Set{}, false
	}
	return walk(0, size, q.want, numa.Set{})
}

// compareRichness puts the node first that has the larger share of what is
// wanted.
func (q query) compareRichness(a, b []uint64) int {
	share := func(amounts []uint64) float64 {
		var sum float64
		for r, want := range q.want {
			sum += min(1, float64(amounts[r])/float64(max(1, want)))
		}
		return sum
	}
	switch x, y := share(a), share(b); {
	case x > y:
		return -1
	case x < y:
		return 1
	default:
		return 0
	}
}

// best is the hint to take when nothing else decides: a preferred one before
// the others, then the narrowest, then the one whose nodes without CPUs are the
// nearest, then the smallest number.
func (m Machine) best(hints []numa.Hint) (numa.Hint, bool) {
	if len(hints) == 0 {
		return numa.Hint{}, false
	}
	return slices.MinFunc(hints, func(a, b numa.Hint) int {
		if a.Preferred != b.Preferred {
			if a.Preferred {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Nodes.Size(), b.Nodes.Size()), cmp.Compare(m.wayToCPUs(a.Nodes), m.wayToCPUs(b.Nodes)), compareMasks(a.Nodes, b.Nodes))
	}), true
}

func compareMasks(a, b numa.Set) int {
	switch {
	case a == b:
		return 0
	case a.Narrower(b):
		return -1
	default:
		return 1
	}
}

// combinations is n over k, or any number above limit when it is larger.
func combinations(n, k, limit int) int {
	result := 1
	for i := 1; i <= min(k, n-k); i++ {
		result = result * (n - i + 1) / i
		if result > limit {
			return result
		}
	}
	return result
}

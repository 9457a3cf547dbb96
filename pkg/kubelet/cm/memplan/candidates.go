// SPDX-License-Identifier: Apache-2.0

package memplan

import (
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

// reusable is memory of ended init containers that a later container of the
// same pod can have again, by the exact nodes that it lies on.
type reusable map[numa.Set]podplan.Memory

// query is a request with what each node can give for it, as vectors: entry r
// of a vector is about resources[r].
type query struct {
	host      Host
	resources []string
	want      []uint64
	reuse     reusable
	// capable are the nodes that can ever give something.
	capable numa.Set
	// idle and free are by node ID.
	idle, free map[int][]uint64
}

func (h Host) query(request podplan.Memory, reuse reusable) query {
	q := query{host: h, resources: sortedNames(request), reuse: reuse, idle: map[int][]uint64{}, free: map[int][]uint64{}}
	q.capable = h.capable(q.resources)
	for _, name := range q.resources {
		q.want = append(q.want, request[name])
		for id := range h.machine.ids.All() {
			q.idle[id] = append(q.idle[id], h.machine.nodes[id][name].Allocatable)
			q.free[id] = append(q.free[id], h.free(id, name))
		}
	}
	return q
}

// hints lists the sets of nodes that can hold the request now: single nodes and
// groups in use, then sets of unused nodes by growing size. The preferred ones
// are as narrow as the narrowest set that could hold it on an idle machine.
func (q query) hints() []numa.Hint {
	narrowest := q.narrowest()
	if narrowest == 0 {
		return nil
	}
	var masks []numa.Set
	var unused []int
	for id := range q.host.machine.ids.All() {
		u := q.host.usage[id]
		switch {
		case u.group.Size() > 1:
			// Each group is looked at once, at its first node.
			if first := u.group.List()[0]; first == id && q.holds(u.group) {
				masks = append(masks, u.group)
			}
			continue
		case q.capable.Contains(id) && q.holds(u.group):
			masks = append(masks, u.group)
		}
		if q.capable.Contains(id) && u.assignments == 0 {
			unused = append(unused, id)
		}
	}
	for size := max(2, narrowest); size <= len(unused); size++ {
		masks = q.appendSets(masks, unused, size, narrowest)
	}
	hints := make([]numa.Hint, len(masks))
	for i, mask := range masks {
		hints[i] = numa.Hint{Nodes: mask, Preferred: mask.Size() == narrowest}
	}
	return hints
}

// appendSets appends the sets of size nodes out of ids that hold the request:
// all of them, or, when there are too many to try, the runs of neighbours and,
// if no run will do, one set found by searching.
func (q query) appendSets(masks []numa.Set, ids []int, size, narrowest int) []numa.Set {
	limit := maxMasks
	if size == narrowest {
		limit = maxNarrowest
	}
	if len(ids) <= completeNodes || combinations(len(ids), size, limit) <= limit {
		return q.appendAll(masks, ids, size)
	}
	before := len(masks)
	for first := 0; first+size <= len(ids); first++ {
		if run := numa.SetOf(ids[first : first+size]...); q.holds(run) {
			masks = append(masks, run)
		}
	}
	if len(masks) == before {
		if mask, ok := q.search(q.free, ids, size); ok {
			masks = append(masks, mask)
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
			if q.covers(sums[depth], chosen) {
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

// holds reports whether the nodes have room for the request.
func (q query) holds(nodes numa.Set) bool {
	sums := make([]uint64, len(q.want))
	for id := range nodes.All() {
		for r, amount := range q.free[id] {
			sums[r] = add(sums[r], amount)
		}
	}
	return q.covers(sums, nodes)
}

// covers reports whether sums, which the nodes have free, cover the request
// together with what can be used again there.
func (q query) covers(sums []uint64, nodes numa.Set) bool {
	for r, want := range q.want {
		if sums[r] < want && add(sums[r], q.reuse[nodes][q.resources[r]]) < want {
			return false
		}
	}
	return true
}

// narrowest is the smallest number of nodes that could hold the request on an
// idle machine, 0 if all of them could not. With one resource it is exact; with
// several it is exact unless the search for a set runs into maxSteps, which
// takes more than a dozen nodes that are unlike in every resource.
func (q query) narrowest() int {
	ids := q.capable.List()
	for size := 1; size <= len(ids); size++ {
		if _, ok := q.search(q.idle, ids, size); ok {
			return size
		}
	}
	return 0
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
// the others, then the narrowest.
func best(hints []numa.Hint) (numa.Hint, bool) {
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
		return compareMasks(a.Nodes, b.Nodes)
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

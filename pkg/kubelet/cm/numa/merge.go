// SPDX-License-Identifier: Apache-2.0

package numa

// MergeOptions say what Merge optimises.
type MergeOptions struct {
	// SingleNode drops every hint that is not preferred or that needs more
	// than one node, before anything else.
	SingleNode bool
	// Distances, if given, decide between masks of the same size.
	Distances *Distances
}

// Merged is the outcome of Merge.
type Merged struct {
	// Hint is the best affinity. When no choice of hints has a node in common
	// it is the set of all nodes, not preferred.
	Hint Hint
	// Objections say which resources stood in the way of a preferred affinity,
	// in the order of the resources. There are none when Hint is preferred.
	Objections []Objection
}

// Merge finds the best affinity for resources on a machine whose online nodes
// are all. See the package comment.
func Merge(all Set, resources []Resource, opts MergeOptions) Merged {
	lists := make([][]Hint, len(resources))
	for i, r := range resources {
		lists[i] = r.choices(opts.SingleNode)
	}

	narrowest := picker{distances: opts.Distances, rank: func(size int) int { return size }}
	eachPreferred(lists, all, narrowest.offer)
	if narrowest.found {
		return Merged{Hint: Hint{Nodes: narrowest.best, Preferred: true}}
	}

	best := picker{distances: opts.Distances, rank: nearestTo(neededSize(lists))}
	eachReachable(lists, all, &best)
	if !best.found {
		best.best = all
	}
	return Merged{
		Hint:       Hint{Nodes: best.best},
		Objections: objections(all, resources, lists, opts.SingleNode),
	}
}

var (
	dontCare    = []Hint{{Any: true, Preferred: true}}
	unavailable = []Hint{{Any: true}}
)

// choices returns the hints among which one is chosen for r. A resource that
// cannot be had does not restrict the others but spoils every preference.
func (r Resource) choices(singleNode bool) []Hint {
	list := r.Hints
	switch {
	case r.NoPreference:
		list = dontCare
	case len(list) == 0:
		list = unavailable
	}
	if !singleNode {
		return list
	}
	single := make([]Hint, 0, MaxNodes)
	for _, h := range list {
		if h.Preferred && (h.Any || h.Nodes.Size() == 1) {
			single = append(single, h)
		}
	}
	return single
}

// neededSize is T: the largest of the resources' smallest masks. Masks count as
// they were given, with nodes that are not online.
func neededSize(lists [][]Hint) int {
	needed := 0
	for _, list := range lists {
		smallest := MaxNodes + 1
		for _, h := range list {
			if !h.Any {
				smallest = min(smallest, h.Nodes.Size())
			}
		}
		if smallest <= MaxNodes {
			needed = max(needed, smallest)
		}
	}
	return needed
}

// nearestTo ranks sizes for results that are not preferred: target first, then
// the sizes below it downwards, then those above it upwards.
func nearestTo(target int) func(int) int {
	return func(size int) int {
		if size <= target {
			return target - size
		}
		return MaxNodes + size
	}
}

// picker keeps the best of the sets that it is offered: the lowest rank of the
// size, then the smallest mean distance, then the smallest number.
type picker struct {
	rank      func(size int) int
	distances *Distances

	found bool
	best  Set
	mean  float64
}

func (p *picker) offer(s Set) {
	if s.IsEmpty() || p.found && s == p.best {
		return
	}
	better, mean := !p.found, 0.0
	if p.found {
		old, rank := p.rank(p.best.Size()), p.rank(s.Size())
		if rank > old {
			return // the usual case; spares the distances
		}
		better = rank < old
	}
	if p.distances != nil {
		mean = p.distances.Mean(s)
	}
	if !better && mean != p.mean {
		if mean > p.mean {
			return
		}
		better = true
	}
	if better || s.word < p.best.word {
		p.found, p.best, p.mean = true, s, mean
	}
}

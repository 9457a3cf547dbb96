// SPDX-License-Identifier: Apache-2.0

package numa

// MergeOptions say what Merge optimises.
type MergeOptions struct {
	// SingleNode drops every hint that is not preferred or that needs more
	// than one node, before anything else.
	SingleNode bool
	// Distances, if given, decide between masks of the same size.
	Distances *Distances
	// TieBreak decides, by Usage, between masks that are equally good. Without
	// a Usage every node counts as idle.
	TieBreak TieBreak
	Usage    *Usage
	// Locality, if given, keeps CPUs and memory together when there is no
	// preferred result. See locality.go.
	Locality *Distances
}

// Merge finds the best affinity for resources on a machine whose online nodes
// are all. See the package comment. When no choice of hints has a node in
// common it is the set of all nodes, not preferred; Objections says why a
// result is not preferred.
func Merge(all Set, resources []Resource, opts MergeOptions) Hint {
	hint, found := merge(all, resources, opts, Set{})
	if !found {
		hint.Nodes = all
	}
	return hint
}

// RunnerUp is what Merge would find if the mask were not there, and whether there
// is anything. What merges of many nodes leave out (reach.go) it leaves out as well.
func RunnerUp(all Set, resources []Resource, opts MergeOptions, mask Set) (Hint, bool) {
	return merge(all, resources, opts, mask)
}

// merge finds the best affinity but one.
func merge(all Set, resources []Resource, opts MergeOptions, but Set) (best Hint, found bool) {
	w := newWorkspace()
	defer w.release()
	lists := w.choices(resources, opts.SingleNode)

	narrowest := picker{but: but, distances: opts.Distances, tieBreak: opts.TieBreak, usage: opts.Usage}
	w.preferred(lists, all, &narrowest)
	if narrowest.found {
		return Hint{Nodes: narrowest.best, Preferred: true}, true
	}
	if opts.Locality != nil && !opts.SingleNode {
		if nodes, ok := w.together(all, resources, opts, but); ok {
			return Hint{Nodes: nodes}, true
		}
	}
	other := picker{but: but, target: neededSize(lists), distances: opts.Distances, tieBreak: opts.TieBreak, usage: opts.Usage}
	w.reachable(lists, all, &other)
	return Hint{Nodes: other.best}, other.found
}

var (
	dontCare    = []Hint{{Any: true, Preferred: true}}
	unavailable = []Hint{{Any: true}}
)

// choices returns the hints among which one is chosen for r. A resource that
// cannot be had does not restrict the others but spoils every preference.
func (r Resource) choices() []Hint {
	switch {
	case r.NoPreference:
		return dontCare
	case len(r.Hints) == 0:
		return unavailable
	}
	return r.Hints
}

// ofOneNode reports whether a policy that knows single nodes only looks at the
// hint.
func (h Hint) ofOneNode() bool { return h.Preferred && (h.Any || h.Nodes.Size() == 1) }

// neededSize is T: the largest of the resources' smallest masks. Masks count as
// they were given, with nodes that are not online.
func neededSize(lists [][]Hint) int {
	needed := 0
	for _, list := range lists {
		if smallest := smallestSize(list); smallest <= MaxNodes {
			needed = max(needed, smallest)
		}
	}
	return needed
}

// smallestSize is the size of the smallest mask, MaxNodes+1 if there is none.
func smallestSize(list []Hint) int {
	smallest := MaxNodes + 1
	for _, h := range list {
		if !h.Any {
			smallest = min(smallest, h.Nodes.Size())
		}
	}
	return smallest
}

// nearestTo ranks sizes for results that are not preferred: target first, then
// the sizes below it downwards, then those above it upwards. With target 0,
// which no result has, the narrowest is the best.
func nearestTo(target, size int) int {
	if size <= target {
		return target - size
	}
	return MaxNodes + size
}

// picker keeps the best of the sets that it is offered: the lowest rank of the
// size, then the smallest mean distance, then those nearest to elsewhere, then
// what the tie-break says, then the smallest number.
type picker struct {
	but       Set // is not taken
	target    int
	distances *Distances
	elsewhere *elsewhere
	tieBreak  TieBreak
	usage     *Usage

	found bool
	best  Set
	mean  float64
	away  uint64
	load  int
}

func (p *picker) offer(s Set) {
	if s.IsEmpty() || s == p.but || p.found && s == p.best {
		return
	}
	order := -1 // as cmp.Compare: s against the best
	if p.found {
		old, rank := nearestTo(p.target, p.best.Size()), nearestTo(p.target, s.Size())
		if rank > old {
			return // the usual case; spares the distances
		}
		order = rank - old
	}
	var mean float64
	if p.distances != nil {
		mean = p.distances.Mean(s)
	}
	if order == 0 && mean != p.mean {
		if mean > p.mean {
			return
		}
		order = -1
	}
	var away uint64
	if p.elsewhere != nil {
		away = p.elsewhere.distance(s)
	}
	if order == 0 && away != p.away {
		if away > p.away {
			return
		}
		order = -1
	}
	load := p.tieBreak.rank(p.usage, s)
	if order == 0 && load != p.load {
		if load > p.load {
			return
		}
		order = -1
	}
	if order < 0 || s.word < p.best.word {
		p.found, p.best, p.mean, p.away, p.load = true, s, mean, away, load
	}
}

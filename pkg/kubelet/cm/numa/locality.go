// SPDX-License-Identifier: Apache-2.0

package numa

import "strings"

// The rule of MergeOptions.Locality. Where the resources have no preferred nodes
// in common, the plain merge takes what an intersection of masks leaves: the
// CPUs may then be tied to a node that has none free, because a device lies
// there, and end up spread over the machine. With Locality, CPUs and memory
// (hugepages are memory) come first:
//
//   - Looked at are the masks that each of these resources offers, preferred or
//     not: on any of them all CPUs and all memory of the request fit together.
//   - The one with the fewest nodes wins; of equally many the nodes that are
//     nearest to each other; then those nearest to where the other resources
//     are, which are the devices; then the tie-break and the binary number
//     decide, as always.
//   - Where devices are is told by their narrowest masks, since they tell no
//     numbers: for each device resource the distance to the nearest of these
//     masks counts, as the mean over all pairs of nodes, in thousandths.
//
// The devices follow: the device manager takes those on the nodes of the
// result first, and others where these do not suffice.
//
// If no mask is offered by all of them, or CPUs or memory cannot be had at all
// or do not matter, the rule does not apply and the plain merge decides.

// staysTogether tells CPUs and memory from devices. The names of devices have a
// domain in front.
func (r Resource) staysTogether() bool {
	return r.Name == "cpu" || r.Name == "memory" || strings.HasPrefix(r.Name, "hugepages-")
}

// together returns the nodes that the rule chooses; false where it does not
// apply.
func (w *workspace) together(all Set, resources []Resource, opts MergeOptions, but Set) (Set, bool) {
	w.demanding, w.apart = w.demanding[:0], w.apart[:0]
	for _, r := range resources {
		switch list := r.choices(); {
		case smallestSize(list) > MaxNodes && !r.NoPreference && r.staysTogether() && len(r.Hints) == 0:
			return Set{}, false
		case acceptsAll(list):
		case r.staysTogether():
			w.demanding = append(w.demanding, list)
		default:
			w.apart = append(w.apart, list)
		}
	}
	best := picker{but: but, distances: opts.Locality, tieBreak: opts.TieBreak, usage: opts.Usage}
	best.elsewhere = &elsewhere{all: all, distances: opts.Locality, lists: w.apart}
	w.common(w.demanding, false, func(s Set) {
		if s.IsSubsetOf(all) {
			best.offer(s)
		}
	})
	return best.best, best.found
}

func acceptsAll(list []Hint) bool {
	for _, h := range list {
		if h.Any {
			return true
		}
	}
	return false
}

// elsewhere is where resources lie that go their own way.
type elsewhere struct {
	all       Set
	distances *Distances
	lists     [][]Hint
}

// distance is how far s is from them, see above.
func (e *elsewhere) distance(s Set) uint64 {
	var sum uint64
	for _, list := range e.lists {
		size := smallestSize(list)
		nearest, found := uint64(0), false
		for _, h := range list {
			there := h.Nodes.Intersection(e.all)
			if h.Nodes.Size() != size || there.IsEmpty() {
				continue
			}
			if d := e.distances.mean(s, there); !found || d < nearest {
				nearest, found = d, true
			}
		}
		sum += nearest
	}
	return sum
}

// mean is the mean distance from a node of a to a node of b, in thousandths.
func (d *Distances) mean(a, b Set) uint64 {
	var sum, pairs uint64
	for from := range a.All() {
		for to := range b.All() {
			if distance, ok := d.Between(from, to); ok {
				sum += distance
				pairs++
			}
		}
	}
	return sum * 1000 / max(pairs, 1)
}

// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// completeNodes is up to how many NUMA nodes with CPUs a list of hints is
// complete: every set of nodes that can serve the request is in it. Beyond,
// preferred sets are complete if they are among at most completePreferred sets.
const (
	completeNodes     = 12
	completePreferred = 1024
)

// hints lists the sets of NUMA nodes that can give request CPUs out of free and
// mine, which the pod holds already. Preferred are those as narrow as the
// narrowest set that could on an idle node and, when aligned by socket, those
// that span no more sockets than it takes there.
//
// For the first of several containers that share CPUs one after the other, peak
// is how many these need together: sets are left out to which no other nodes can
// be added for that, as long as a preferred one remains.
//
// Sets that hold all of mine are listed alone if one of them is preferred, so
// that the pod does not hold CPUs on nodes where it does not run; otherwise
// all are.
//
// On more than completeNodes nodes, only preferred sets and the sets of all nodes
// that have room, and of all, are listed. Where there could be more than
// completePreferred of the former, they are runs of neighbours among the nodes
// that have room, and the nodes with the most room: this finds a preferred set
// whenever there is one, but not every one.
func (n *Node) hints(free, mine Set, request, peak int) []numa.Hint {
	room := n.newRoom(n.offer(free).Union(mine), request)
	narrowest := n.narrowest(request)
	fewestSockets := n.fewestSockets(request)
	must := n.nodesOf(mine)
	var covering, all []numa.Hint
	covered := false
	for _, mask := range n.masks(room, narrowest, fewestSockets) {
		if !room.fits(mask) {
			continue
		}
		hint := numa.Hint{Nodes: mask, Preferred: mask.Size() == narrowest || n.options.AlignBySocket && n.sockets(mask) == fewestSockets}
		all = append(all, hint)
		if must.IsSubsetOf(mask) {
			covering = append(covering, hint)
			covered = covered || hint.Preferred
		}
	}
	if covered || must.IsEmpty() {
		all = covering
	}
	if peak > request {
		return n.withRoomFor(all, room, peak)
	}
	return all
}

// withRoomFor leaves out the hints whose nodes cannot be part of what peak CPUs
// need, if a preferred hint remains.
func (n *Node) withRoomFor(hints []numa.Hint, room *room, peak int) []numa.Hint {
	width := n.narrowest(peak)
	order := room.byRoom(n.topology.Nodes())
	preferred := false
	var roomy []numa.Hint
	for _, hint := range hints {
		mask := hint.Nodes
		for _, id := range order {
			if mask.Size() >= width {
				break
			}
			mask = mask.Union(numa.SetOf(id))
		}
		if room.sum(mask) >= peak {
			roomy = append(roomy, hint)
			preferred = preferred || hint.Preferred
		}
	}
	if !preferred {
		return hints
	}
	return roomy
}

// sockets is how many sockets the nodes lie in.
func (n *Node) sockets(nodes numa.Set) int {
	cpus, count := n.topology.OnNodes(nodes), 0
	for _, socket := range n.topology.sockets.units {
		if socket.cpus.Overlaps(cpus) {
			count++
		}
	}
	return count
}

// fewestSockets is how many sockets the request needs on an idle node.
func (n *Node) fewestSockets(request int) int {
	if !n.options.AlignBySocket {
		return 0
	}
	idle := n.offer(n.Allocatable())
	var sizes []int
	for _, socket := range n.topology.sockets.units {
		sizes = append(sizes, socket.cpus.Intersection(idle).Size())
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	for i, size := range sizes {
		if request -= size; request <= 0 {
			return i + 1
		}
	}
	return len(sizes)
}

// narrowest is how many nodes the request needs on an idle node. Reserved CPUs
// do not count, since no pod ever gets them. A request that an idle node cannot
// serve needs all nodes.
func (n *Node) narrowest(request int) int {
	idle := n.newRoom(n.offer(n.Allocatable()), request)
	order := idle.byRoom(n.topology.Nodes())
	for size := 1; size < len(order); size++ {
		if idle.fits(numa.SetOf(order[:size]...)) {
			return size
		}
		// The roomiest nodes have the most CPUs, but with whole cores of
		// unequal size others may be the ones that add up.
		if idle.whole && idle.sum(numa.SetOf(order[:size]...)) >= request && len(n.topology.coreSizes) > 1 && choices(len(order), size) <= completePreferred {
			if slices.ContainsFunc(nodeSets(order, size), idle.fits) {
				return size
			}
		}
	}
	return len(order)
}

// room is what each NUMA node can give to a request.
type room struct {
	topology *Topology
	request  int
	perNode  [numa.MaxNodes]int
	// cores counts each node's whole cores; it is empty unless only whole cores
	// are given out.
	cores [numa.MaxNodes]coreCounts
	whole bool
}

func (n *Node) newRoom(offered Set, request int) *room {
	r := &room{topology: n.topology, request: request, whole: n.options.FullPCPUsOnly}
	for _, node := range n.topology.nodes.units {
		inside := offered.Intersection(node.cpus)
		r.perNode[node.id] = inside.Size()
		if r.whole {
			r.cores[node.id] = n.topology.countWholeCores(inside)
		}
	}
	return r
}

func (r *room) sum(mask numa.Set) int {
	total := 0
	for id := range mask.All() {
		total += r.perNode[id]
	}
	return total
}

// fits reports whether the nodes can give exactly what is asked for.
func (r *room) fits(mask numa.Set) bool {
	if r.sum(mask) < r.request {
		return false
	}
	if !r.whole {
		return true
	}
	counts := make(coreCounts, len(r.topology.coreSizes))
	for id := range mask.All() {
		for i, count := range r.cores[id] {
			counts[i] += count
		}
	}
	return r.topology.addUp(counts, r.request)
}

// byRoom orders nodes by how much they can give, the most first.
func (r *room) byRoom(nodes numa.Set) []int {
	order := nodes.List()
	slices.SortStableFunc(order, func(a, b int) int { return r.perNode[b] - r.perNode[a] })
	return order
}

// masks are the sets of nodes to look at, by growing size.
func (n *Node) masks(r *room, preferred, sockets int) []numa.Set {
	nodes := n.topology.Nodes()
	if nodes.Size() <= completeNodes {
		return slices.Collect(nodes.Subsets())
	}
	var some []int
	for id := range nodes.All() {
		if r.perNode[id] > 0 {
			some = append(some, id)
		}
	}
	var masks []numa.Set
	// A set with fewer nodes than preferred cannot serve the request, and so
	// neither can one of that size in which a node has no room.
	if choices(len(some), preferred) <= completePreferred {
		masks = nodeSets(some, preferred)
	} else {
		for first := 0; first+preferred <= len(some); first++ {
			masks = append(masks, numa.SetOf(some[first:first+preferred]...))
		}
		masks = append(masks, numa.SetOf(r.byRoom(numa.SetOf(some...))[:preferred]...))
	}
	if n.options.AlignBySocket {
		masks = append(masks, n.socketMasks(sockets)...)
	}
	masks = append(masks, numa.SetOf(some...), nodes)
	slices.SortStableFunc(masks, func(a, b numa.Set) int { return a.Size() - b.Size() })
	seen := map[numa.Set]bool{}
	return slices.DeleteFunc(masks, func(mask numa.Set) bool {
		known := seen[mask] || mask.IsEmpty()
		seen[mask] = true
		return known
	})
}

// socketMasks are the nodes of runs of that many neighbouring sockets.
func (n *Node) socketMasks(count int) []numa.Set {
	units := n.topology.sockets.units
	var masks []numa.Set
	for first := 0; first+count <= len(units); first++ {
		var mask numa.Set
		for _, socket := range units[first : first+count] {
			mask = mask.Union(n.nodesOf(socket.cpus))
		}
		masks = append(masks, mask)
	}
	return masks
}

// choices is how many sets of k there are among n, or more than completePreferred
// if there are more.
func choices(n, k int) int {
	count := 1
	for i := range min(k, n-k) {
		if count = count * (n - i) / (i + 1); count > completePreferred {
			return count
		}
	}
	return count
}

// nodeSets lists the sets of k of the nodes, in lexical order.
func nodeSets(nodes []int, k int) []numa.Set {
	if k < 1 || k > len(nodes) {
		return nil
	}
	var sets []numa.Set
	for combination := range combinations(len(nodes), k) {
		var set numa.Set
		for _, place := range combination {
			set = set.Union(numa.SetOf(nodes[place]))
		}
		sets = append(sets, set)
	}
	return sets
}

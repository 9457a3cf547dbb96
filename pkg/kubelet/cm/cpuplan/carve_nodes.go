// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Where the parts of a pod lie is judged by, in this order:
//
//  1. how many of its slices lie on one NUMA node each,
//  2. on how few nodes the others lie,
//  3. if caches are to be shared, how many slices lie in one cache each,
//  4. on how few nodes the pod shared pool lies.
//
// CPUs that are chosen one after the other, as for pods without a budget, are
// kept unless something better is found. CPUs that are to be distributed over
// nodes are judged by 1 only.
type merit struct {
	whole int
	rest  judgement
}

func (m merit) betterThan(o merit) bool {
	return m.whole > o.whole || m.whole == o.whole && m.rest.compare(o.rest) > 0
}

// meritOf judges the slices of a pod and what they leave of its CPUs.
func (n *Node) meritOf(taken []Set, pool Set) merit {
	var m merit
	nodes, aligned := 0, 0
	for _, cpus := range taken {
		width := n.nodesOf(cpus).Size()
		nodes += width
		if width == 1 {
			m.whole++
		}
		if n.topology.InOneCache(cpus) {
			aligned++
		}
	}
	m.rest = n.judge(nodes, aligned, n.nodesOf(pool).Size())
	return m
}

// judge leaves out what the options do not ask for.
func (n *Node) judge(nodes, aligned, poolNodes int) judgement {
	if n.options.DistributeAcrossNUMA {
		return judgement{}
	}
	if !n.options.PreferUncoreCache {
		aligned = 0
	}
	return judgement{-nodes, aligned, -poolNodes}
}

// ideal is the merit that cannot be exceeded.
func (n *Node) ideal(count, pool int) merit {
	return merit{count, n.judge(count, count, min(pool, 1))}
}

// layout says how much of each NUMA node the parts of a pod take.
type layout struct {
	// nodes is what each node has on offer.
	nodes []Set
	// parts is, for each slice and then for the pool, how many CPUs it takes of
	// each node.
	parts [][]int
}

// layOut finds where slices of the given sizes, and a pool, lie best among the
// CPUs that are on offer. Slices that fit on no single node come after those
// that do, in their order, and the pool comes last.
func (n *Node) layOut(offered Set, sizes []int, pool int) layout {
	var l layout
	var room, socket []int
	for _, node := range n.topology.nodes.units {
		if inside := offered.Intersection(node.cpus); !inside.IsEmpty() {
			l.nodes = append(l.nodes, inside)
			room = append(room, inside.Size())
			socket = append(socket, n.topology.sockets.of[inside.first()])
		}
	}
	search := &filling{sizes: sizes, room: slices.Clone(room), ideal: n.ideal(len(sizes), pool).rest}
	search.judge = func(nodeOf, room []int) judgement {
		nodes, aligned := 0, 0
		for i, node := range nodeOf {
			if node < 0 {
				nodes += onFewest(room, socket, sizes[i])
			} else {
				nodes++
			}
		}
		if n.options.PreferUncoreCache {
			for node := range l.nodes {
				inner := n.fillCaches(l.nodes[node], sizes, nodeOf, node)
				aligned += inner.found
				search.steps += inner.steps
			}
		}
		return n.judge(nodes, aligned, onFewest(room, socket, pool))
	}
	nodeOf, _ := search.search(false)
	if search.steps > fillLimit {
		nodeOf, _ = search.search(true)
	}
	l.parts = make([][]int, len(sizes)+1)
	for i, node := range nodeOf {
		l.parts[i] = make([]int, len(room))
		if node >= 0 {
			l.parts[i][node] = sizes[i]
			room[node] -= sizes[i]
		}
	}
	for i := range l.parts {
		if i < len(sizes) && nodeOf[i] >= 0 {
			continue
		}
		size := pool
		if i < len(sizes) {
			size = sizes[i]
		}
		before := slices.Clone(room)
		onFewest(room, socket, size)
		for node := range room {
			before[node] -= room[node]
		}
		l.parts[i] = before
	}
	return l
}

// cacheFilling is which of a node's slices lie in one cache each.
type cacheFilling struct {
	filling
	caches []Set
	// members are the slices, by their number in the pod, and cacheOf the cache
	// of each, or -1.
	members, cacheOf []int
}

// fillCaches puts as many as possible of the slices that lie on the node into one
// cache each.
func (n *Node) fillCaches(offered Set, sizes, nodeOf []int, node int) *cacheFilling {
	f := &cacheFilling{}
	for i, at := range nodeOf {
		if at == node {
			f.members = append(f.members, i)
			f.sizes = append(f.sizes, sizes[i])
		}
	}
	for _, cache := range n.topology.caches.units {
		if inside := offered.Intersection(cache.cpus); !inside.IsEmpty() {
			f.caches = append(f.caches, inside)
			f.room = append(f.room, inside.Size())
		}
	}
	f.cacheOf, _ = f.search(true)
	return f
}

// takeSlices takes the slices as they are laid out.
func (n *Node) takeSlices(l layout) ([]Set, error) {
	count := len(l.parts) - 1
	taken := make([]Set, count)
	for node, left := range l.nodes {
		take := func(i int, from Set) error {
			cpus, err := n.choose(from, l.parts[i][node], numa.Set{})
			taken[i] = taken[i].Union(cpus)
			left = left.Difference(cpus)
			return err
		}
		sizes, nodeOf := make([]int, count), make([]int, count)
		for i := range count {
			sizes[i], nodeOf[i] = l.parts[i][node], -1
			if isWhole(l.parts[i], node) {
				nodeOf[i] = node
			}
		}
		var done []int
		if n.options.PreferUncoreCache {
			f := n.fillCaches(left, sizes, nodeOf, node)
			for at, cache := range f.cacheOf {
				if cache < 0 {
					continue
				}
				if err := take(f.members[at], f.caches[cache].Intersection(left)); err != nil {
					return nil, err
				}
				done = append(done, f.members[at])
			}
		}
		for _, whole := range []bool{true, false} {
			for i := range count {
				if sizes[i] == 0 || whole != (nodeOf[i] == node) || slices.Contains(done, i) {
					continue
				}
				if err := take(i, left); err != nil {
					return nil, err
				}
			}
		}
	}
	return taken, nil
}

// isWhole reports whether the part takes something of that node and of no other.
func isWhole(part []int, node int) bool {
	for other, count := range part {
		if (count > 0) != (other == node) {
			return false
		}
	}
	return true
}

// slices takes the slices of long-running containers out of the pod's CPUs: in
// the order of the shares, unless that splits what another arrangement keeps
// together.
func (n *Node) slices(left Set, wanted []podplan.Share) ([]Set, error) {
	taken, err := n.slicesInOrder(left, wanted)
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	sizes, pool := sizesOf(left, wanted)
	best := n.meritOf(taken, left.Difference(union(taken)))
	if !n.ideal(len(sizes), pool).betterThan(best) {
		return taken, nil
	}
	other, err := n.takeSlices(n.layOut(n.offer(left), sizes, pool))
	if err == nil && n.meritOf(other, left.Difference(union(other))).betterThan(best) {
		return other, nil
	}
	return taken, nil
}

// sizesOf is how large the slices are, and the pool that they leave.
func sizesOf(cpus Set, wanted []podplan.Share) (sizes []int, pool int) {
	pool = cpus.Size()
	for _, share := range wanted {
		sizes = append(sizes, int(share.Slice))
		pool -= int(share.Slice)
	}
	return sizes, pool
}

func union(sets []Set) Set {
	var all Set
	for _, s := range sets {
		all = all.Union(s)
	}
	return all
}

// suitSlices chooses the CPUs of a budget that spans NUMA nodes anew if its
// slices lie better then: 20 CPUs for two slices of 10 are 10 on each of two
// nodes, and not all that one of them has and the rest from the other. It stays
// on the nodes that the budget was on.
func (n *Node) suitSlices(free Set, record Record, shares []podplan.Share, affinity numa.Hint) Record {
	nodes := n.nodesOf(record.Pod)
	if nodes.Size() < 2 || n.options.DistributeAcrossNUMA || !affinity.Any && !nodes.IsSubsetOf(affinity.Nodes) {
		return record
	}
	wanted := longRunning(shares)
	sizes, pool := sizesOf(record.Pod, wanted)
	if len(wanted) == 0 {
		return record
	}
	best := n.meritOfRecord(record, wanted)
	if !n.ideal(len(sizes), pool).betterThan(best) {
		return record
	}
	l := n.layOut(free.Intersection(n.topology.OnNodes(nodes)), sizes, pool)
	var other Record
	for node, offered := range l.nodes {
		count := 0
		for _, part := range l.parts {
			count += part[node]
		}
		cpus, err := n.choose(offered, count, numa.Set{})
		if err != nil {
			return record
		}
		other.Pod = other.Pod.Union(cpus)
	}
	other, err := n.carve(other, shares)
	if err != nil || !n.meritOfRecord(other, wanted).betterThan(best) {
		return record
	}
	return other
}

func (n *Node) meritOfRecord(record Record, wanted []podplan.Share) merit {
	var taken []Set
	for _, share := range wanted {
		taken = append(taken, record.Containers[share.Container.Name])
	}
	return n.meritOf(taken, record.Pod.Difference(union(taken)))
}

// longRunning is the shares that are slices of long-running containers.
func longRunning(shares []podplan.Share) []podplan.Share {
	return slices.DeleteFunc(slices.Clone(shares), func(s podplan.Share) bool {
		return s.Slice == 0 || !s.Container.Kind.LongRunning()
	})
}

// initSlice takes the slice of a standard init container out of what it may have,
// as far as possible not out of what is busy when it runs, and on the fewest NUMA
// nodes.
func (n *Node) initSlice(container string, left, busy Set, count int) (Set, error) {
	idle := left.Difference(busy)
	cpus, err := n.slice(container, left, idle, count)
	if err != nil || n.options.DistributeAcrossNUMA || n.nodesOf(cpus).Size() < 2 || cpus.Overlaps(busy) {
		return cpus, err
	}
	other, err := n.takeSlices(n.layOut(n.offer(idle), []int{count}, 0))
	if err == nil && n.nodesOf(other[0]).Size() < n.nodesOf(cpus).Size() {
		return other[0], nil
	}
	return cpus, nil
}

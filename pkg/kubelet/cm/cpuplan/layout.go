// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// merit is how good it is where the parts of a pod lie. In this order it counts
//
//  1. how many of its slices lie on one NUMA node each,
//  2. on how few nodes the others lie,
//  3. if caches are to be shared, how many slices lie in one cache each,
//  4. on how few nodes the pod shared pool lies.
//
// Of CPUs that are to be distributed over nodes only the first counts.
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
		if n.options.PreferUncoreCache && n.topology.InOneCache(cpus) {
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
	return judgement{-nodes, aligned, -poolNodes}
}

// rooms is what each NUMA node has on offer: the CPUs, how many, the socket, and
// if these are to be shared its caches.
type rooms struct {
	cpus         []Set
	size, socket []int
	caches       [][]Set
}

func (n *Node) roomsOf(offered Set) rooms {
	var r rooms
	for _, node := range n.topology.nodes.units {
		inside := offered.Intersection(node.cpus)
		if inside.IsEmpty() {
			continue
		}
		r.cpus = append(r.cpus, inside)
		r.size = append(r.size, inside.Size())
		r.socket = append(r.socket, n.topology.sockets.of[inside.first()])
		var caches []Set
		if n.options.PreferUncoreCache {
			for _, cache := range n.topology.caches.units {
				if part := inside.Intersection(cache.cpus); !part.IsEmpty() {
					caches = append(caches, part)
				}
			}
		}
		r.caches = append(r.caches, caches)
	}
	return r
}

// bound is a merit that slices of these sizes and a pool cannot exceed.
func (n *Node) bound(r rooms, sizes []int, pool int) merit {
	largest := 0
	for _, cache := range slices.Concat(r.caches...) {
		largest = max(largest, cache.Size())
	}
	var m merit
	nodes, aligned := 0, 0
	for _, size := range sizes {
		width := onFewest(slices.Clone(r.size), r.socket, size)
		nodes += width
		if width == 1 {
			m.whole++
		}
		if size <= largest {
			aligned++
		}
	}
	m.rest = n.judge(nodes, aligned, onFewest(slices.Clone(r.size), r.socket, pool))
	return m
}

// layout says how much of each NUMA node the parts of a pod take.
type layout struct {
	rooms
	// parts is, for each slice and then for the pool, how many CPUs it takes of
	// each node.
	parts [][]int
}

// layOut finds where slices of the given sizes, and a pool, lie best. Slices that
// fit on no single node come after those that do, in their order, and the pool
// comes last.
func (n *Node) layOut(r rooms, sizes []int, pool int) layout {
	search := &filling{sizes: sizes, room: slices.Clone(r.size), ideal: n.bound(r, sizes, pool)}
	if !n.options.PreferUncoreCache {
		search.group = r.socket
	}
	search.judge = func(nodeOf, room []int) judgement {
		nodes, aligned := 0, 0
		for i, node := range nodeOf {
			if node < 0 {
				nodes += onFewest(room, r.socket, sizes[i])
			} else {
				nodes++
			}
		}
		if n.options.PreferUncoreCache {

			for node := range r.cpus {
				inner := fillCaches(r.caches[node], sizes, nodeOf, node)
				aligned += inner.found
				search.steps += 4 + inner.steps
			}
		}
		return n.judge(nodes, aligned, onFewest(room, r.socket, pool))
	}
	nodeOf, _ := search.search(false)
	if search.steps > fillLimit {
		nodeOf, _ = search.search(true)
	}
	l := layout{rooms: r, parts: make([][]int, len(sizes)+1)}
	room := slices.Clone(r.size)
	for i, node := range nodeOf {
		if node >= 0 {
			l.parts[i] = make([]int, len(room))
			l.parts[i][node] = sizes[i]
			room[node] -= sizes[i]
		}
	}
	for i, size := range append(slices.Clone(sizes), pool) {
		if l.parts[i] != nil {
			continue
		}
		l.parts[i] = slices.Clone(room)
		onFewest(room, r.socket, size)
		for node := range room {
			l.parts[i][node] -= room[node]
		}
	}
	return l
}

// cacheFilling is which of a node's slices lie in one cache each.
type cacheFilling struct {
	filling
	// members are the slices, by their number in the pod, and cacheOf the cache
	// of each, or -1.
	members, cacheOf []int
}

// fillCaches puts as many as possible of the slices that lie on the node into one
// cache each.
func fillCaches(caches []Set, sizes, nodeOf []int, node int) *cacheFilling {
	f := &cacheFilling{}
	for i, at := range nodeOf {
		if at == node {
			f.members = append(f.members, i)
			f.sizes = append(f.sizes, sizes[i])
		}
	}
	for _, cache := range caches {
		f.room = append(f.room, cache.Size())
	}
	f.cacheOf, _ = f.search(true)
	return f
}

// takeSlices takes the slices as they are laid out.
func (n *Node) takeSlices(l layout) ([]Set, error) {
	count := len(l.parts) - 1
	taken := make([]Set, count)
	for node, left := range l.cpus {
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
			f := fillCaches(l.caches[node], sizes, nodeOf, node)
			for at, cache := range f.cacheOf {
				if cache < 0 {
					continue
				}
				if err := take(f.members[at], l.caches[node][cache].Intersection(left)); err != nil {
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

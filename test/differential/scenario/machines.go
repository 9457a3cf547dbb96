// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// randomMachine makes machines of the shapes that Linux describes. Most are
// small, since small ones fill up and few CPUs make few reasons for a decision.
func randomMachine(r *rand.Rand, limits Limits) Machine {
	nodes := 1 + r.IntN(limits.Nodes)
	perNode := 1 + r.IntN(6)
	smt := pick(r, 1, 2, 2, 2, 2, 2, 2, 2, 4, 8)
	if smt == 8 {
		perNode = min(perNode, 3)
	}
	if limits.Nodes > 4 {
		perNode = min(perNode, 4)
		smt = min(smt, 2)
	}
	g := &grower{r: r, smt: smt}
	unequal := r.IntN(8) == 0
	hybrid := r.IntN(8) == 0
	group := 1 + r.IntN(3) // how many nodes a socket has, or sockets a node
	split := r.IntN(4) == 0
	crossed := limits.Crossed && r.IntN(2) == 0
	for node := range nodes {
		cores := perNode
		if unequal {
			cores = 1 + r.IntN(perNode+1)
		}
		sockets := 1
		if split || crossed && r.IntN(2) == 0 {
			sockets = group
		}
		for socket := range sockets {
			switch {
			case split:
				g.socket = node*group + socket
			case crossed:
				g.socket = node/group + socket
			default:
				g.socket = node / group
			}
			for core := range cores {
				threads := smt
				if hybrid && core >= (cores+1)/2 {
					threads = 1
				}
				g.core(node, threads)
			}
		}
	}
	caches := g.caches()
	siblings := g.number()
	m := Machine{CPUs: g.cpus}
	offline := 0
	if r.IntN(8) == 0 {
		offline = 1 + r.IntN(2)
		for range offline {
			if len(m.CPUs) > 2 {
				i := r.IntN(len(m.CPUs))
				m.CPUs = slices.Delete(m.CPUs, i, i+1)
			}
		}
	}
	nodeIDs := g.nodeIDs(nodes)
	for i := range m.CPUs {
		m.CPUs[i].Node = nodeIDs[m.CPUs[i].Node]
	}
	for _, id := range nodeIDs {
		m.Nodes = append(m.Nodes, Node{ID: id, MemoryMiB: 16 << 10})
	}
	if r.IntN(8) == 0 {
		m.Nodes = append(m.Nodes, Node{ID: nodeIDs[len(nodeIDs)-1] + 1 + r.IntN(3), MemoryMiB: 16 << 10})
	}
	slices.SortFunc(m.CPUs, func(a, b CPU) int { return a.ID - b.ID })
	m.Shape = fmt.Sprintf("%d CPUs, %d nodes with CPUs, up to %d threads, siblings %s, caches %s, hybrid %t, unequal %t, %d offline",
		len(m.CPUs), len(m.CPUNodes()), smt, siblings, caches, hybrid, unequal, offline)
	return m
}

// grower makes CPUs core by core. Nodes are numbered from 0 and CPU IDs are
// positions until both get their IDs.
type grower struct {
	r           *rand.Rand
	smt, socket int
	cores       int
	cpus        []CPU
}

func (g *grower) core(node, threads int) {
	for range threads {
		g.cpus = append(g.cpus, CPU{ID: len(g.cpus), Core: g.cores, Node: node, Socket: g.socket, Cache: -1})
	}
	g.cores++
}

// caches gives the CPUs their last-level caches.
func (g *grower) caches() string {
	size := 1 + g.r.IntN(4)
	kind := pick(g.r, "untold", "per socket", "per node", "per cores", "per cores")
	next, last, inLast, lastCore := -1, CPU{Node: -1}, 0, -1
	for i := range g.cpus {
		c := &g.cpus[i]
		switch kind {
		case "per socket":
			c.Cache = c.Socket
		case "per node":
			c.Cache = c.Node
		case "per cores":
			if c.Core != lastCore {
				lastCore = c.Core
				inLast++
			}
			if c.Node != last.Node || c.Socket != last.Socket || inLast > size {
				next++
				inLast = 1
			}
			c.Cache = next
			last = *c
		}
	}
	return kind
}

// number gives the CPUs their IDs, in one of the ways that firmware has.
func (g *grower) number() string {
	order := make([]int, len(g.cpus)) // positions in the order of the IDs
	for i := range order {
		order[i] = i
	}
	thread := make([]int, len(g.cpus))
	seen := map[int]int{}
	for i, c := range g.cpus {
		thread[i] = seen[c.Core]
		seen[c.Core]++
	}
	kind := pick(g.r, "adjacent", "far", "far", "interleaved", "shuffled")
	switch kind {
	case "far": // all first threads, then all second ones
		slices.SortStableFunc(order, func(a, b int) int { return thread[a] - thread[b] })
	case "interleaved": // one core of each node after the other
		inNode := map[int]int{}
		place := map[int]int{}
		for _, c := range g.cpus {
			if _, known := place[c.Core]; !known {
				place[c.Core] = inNode[c.Node]
				inNode[c.Node]++
			}
		}
		slices.SortStableFunc(order, func(a, b int) int {
			if thread[a] != thread[b] {
				return thread[a] - thread[b]
			}
			return place[g.cpus[a].Core] - place[g.cpus[b].Core]
		})
	case "shuffled":
		g.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	gap := pick(g.r, 1, 1, 1, 1, 3)
	for id, position := range order {
		g.cpus[position].ID = id * gap
	}
	if gap > 1 {
		kind += " with gaps"
	}
	return kind
}

// nodeIDs are 0, 1, 2, ... or, sometimes, as on POWER, with gaps.
func (g *grower) nodeIDs(nodes int) []int {
	gap := pick(g.r, 1, 1, 1, 1, 1, 8)
	if gap*nodes > 60 {
		gap = 1
	}
	ids := make([]int, nodes)
	for i := range ids {
		ids[i] = i * gap
	}
	return ids
}

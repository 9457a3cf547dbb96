// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// CPU is one logical CPU (hardware thread) and where it sits. Core, Socket and
// Cache are IDs that are unique on the machine; Node is a NUMA node ID.
type CPU struct {
	ID, Core, Socket, Node, Cache int
}

// unit is a core, socket, cache or NUMA node: its ID and its CPUs.
type unit struct {
	id   int
	cpus Set
}

// level is one kind of unit: all units by ascending ID, and for each CPU ID of
// the machine the index of the unit that holds it.
type level struct {
	units []unit
	of    []int
}

// Topology is the CPUs of a machine. Nothing in it assumes that units of one
// kind have the same size or that IDs are dense.
type Topology struct {
	all                           Set
	cores, sockets, caches, nodes level
	// coreSizes are the numbers of threads that cores have, the largest first;
	// sizeOfCore is the index in it of each core's. sizesDivide is set if each
	// size divides the one before it.
	coreSizes   []int
	sizeOfCore  []int
	sizesDivide bool
}

// NewTopology checks and indexes the CPUs of a machine. It fails for a machine
// without CPUs, a CPU that is listed twice, IDs out of range, and a core that
// lies in two sockets or on two NUMA nodes.
func NewTopology(cpus []CPU) (*Topology, error) {
	if len(cpus) == 0 {
		return nil, fmt.Errorf("the machine has no CPUs")
	}
	t := &Topology{}
	ids := make([]int, 0, len(cpus))
	home := map[int]CPU{}
	seen := map[int]bool{}
	for _, c := range cpus {
		switch {
		case c.ID < 0 || c.ID >= MaxCPUs:
			return nil, fmt.Errorf("CPU ID %d is outside the supported range 0-%d", c.ID, MaxCPUs-1)
		case c.Node < 0 || c.Node >= numa.MaxNodes:
			return nil, fmt.Errorf("CPU %d is on NUMA node %d, which is outside the supported range 0-%d", c.ID, c.Node, numa.MaxNodes-1)
		case seen[c.ID]:
			return nil, fmt.Errorf("CPU %d is listed twice", c.ID)
		}
		seen[c.ID] = true
		ids = append(ids, c.ID)
		first, known := home[c.Core]
		if !known {
			home[c.Core] = c
		} else if first.Socket != c.Socket || first.Node != c.Node {
			return nil, fmt.Errorf("core %d has CPU %d in socket %d on NUMA node %d and CPU %d in socket %d on NUMA node %d",
				c.Core, first.ID, first.Socket, first.Node, c.ID, c.Socket, c.Node)
		}
	}
	t.all = NewSet(ids...)
	t.cores = newLevel(cpus, func(c CPU) int { return c.Core })
	t.sockets = newLevel(cpus, func(c CPU) int { return c.Socket })
	t.caches = newLevel(cpus, func(c CPU) int { return c.Cache })
	t.nodes = newLevel(cpus, func(c CPU) int { return c.Node })
	t.setCoreSizes()
	return t, nil
}

func newLevel(cpus []CPU, id func(CPU) int) level {
	members := map[int][]int{}
	for _, c := range cpus {
		members[id(c)] = append(members[id(c)], c.ID)
	}
	highest := 0
	for _, c := range cpus {
		highest = max(highest, c.ID)
	}
	l := level{of: make([]int, highest+1)}
	for unitID, list := range members {
		l.units = append(l.units, unit{unitID, NewSet(list...)})
	}
	slices.SortFunc(l.units, func(a, b unit) int { return cmp.Compare(a.id, b.id) })
	for i, u := range l.units {
		for cpu := range u.cpus.All() {
			l.of[cpu] = i
		}
	}
	return l
}

// join is the CPUs of those units that are to be kept.
func (l *level) join(keep func(unit) bool) Set {
	words := make([]uint64, (len(l.of)+63)/64)
	for _, u := range l.units {
		if keep(u) {
			for i, w := range u.cpus.words {
				words[i] |= w
			}
		}
	}
	return normal(words)
}

// All is every CPU of the machine.
func (t *Topology) All() Set { return t.all }

// Nodes is the set of NUMA nodes that have CPUs.
func (t *Topology) Nodes() numa.Set { return t.NodesOf(t.all) }

// NodesOf is the set of NUMA nodes that the CPUs lie on.
func (t *Topology) NodesOf(cpus Set) numa.Set {
	var nodes numa.Set
	for _, n := range t.nodes.units {
		if n.cpus.Overlaps(cpus) {
			nodes = nodes.Union(numa.SetOf(n.id))
		}
	}
	return nodes
}

// OnNodes is the CPUs of the given NUMA nodes.
func (t *Topology) OnNodes(nodes numa.Set) Set {
	return t.nodes.join(func(n unit) bool { return nodes.Contains(n.id) })
}

// inSocketsOf is every CPU of the sockets that the given CPUs lie in.
func (t *Topology) inSocketsOf(cpus Set) Set {
	return t.sockets.join(func(socket unit) bool { return socket.cpus.Overlaps(cpus) })
}

// Siblings is the given CPUs and every CPU that shares a core with one.
func (t *Topology) Siblings(cpus Set) Set {
	return t.cores.join(func(core unit) bool { return core.cpus.Overlaps(cpus) })
}

// WholeCores is those of the given CPUs whose core lies in the set with all its
// threads.
func (t *Topology) WholeCores(cpus Set) Set {
	return t.cores.join(func(core unit) bool { return core.cpus.IsSubsetOf(cpus) })
}

// ThreadsPerCore is the largest number of CPUs that any core has.
func (t *Topology) ThreadsPerCore() int { return t.coreSizes[0] }

// InOneCache reports whether all the CPUs share one last-level cache.
func (t *Topology) InOneCache(cpus Set) bool {
	for _, c := range t.caches.units {
		if cpus.IsSubsetOf(c.cpus) {
			return true
		}
	}
	return false
}

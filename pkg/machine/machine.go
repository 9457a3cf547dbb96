// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/cpuset"
)

const (
	// MaxCPU is the highest CPU ID.
	MaxCPU = 1<<16 - 1
	// MaxNodes is how many NUMA nodes there may be, which is Linux' own limit.
	MaxNodes = 1 << 10
	// MaxManagedNode is the highest NUMA node ID that all of the kubelet's managers
	// can take: its masks have 64 bits. Machines have higher ones: on some of POWER
	// the memory of accelerators is on the nodes 252 to 255. What does not work there
	// is for the managers to say.
	MaxManagedNode = 63
	// maxID bounds the IDs of nodes, cores, sockets and caches. The kernel has them
	// as int and prints -1 for an ID it does not know; without NUMA nodes, cAdvisor
	// gives out the sockets' IDs for those of nodes.
	maxID = 1<<31 - 1
	// maxBytes bounds amounts of memory. Kubernetes' quantities read a little more
	// than this without rounding.
	maxBytes = 1 << 59
	// maxDistance is far above what firmware can tell, which is 255.
	maxDistance = 1<<16 - 1
)

// NoCache as a CPU's Cache means that the machine does not tell.
const NoCache = -1

// Machine is a machine with the CPUs that are online.
type Machine struct {
	Name, Description string
	// Sources are the public documents that the description was written from.
	Sources []string
	// Capacity is the memory of the whole machine in bytes where it is not the sum
	// of its nodes' (a kernel without NUMA tells no node's), else 0.
	Capacity uint64
	CPUs     []CPU   // by ascending ID
	Nodes    []Node  // by ascending ID
	Caches   []Cache // the caches that CPUs use, by ascending ID
}

// CPU is one logical CPU (hardware thread) and where it sits.
type CPU struct {
	ID int
	// Core is the kernel's core ID, which is unique within the socket only.
	Core, Socket, Node int
	// Cache is the ID of the last-level cache, or NoCache.
	Cache int
}

// Node is a NUMA node. It may have no CPUs, no memory, or neither.
type Node struct {
	ID int
	// Memory is the node's whole memory in bytes, hugepages included.
	Memory    uint64
	HugePages []HugePages // by ascending page size
	// Distances belong, by position, to the nodes of the machine in ascending
	// order. They are nil where the machine does not tell.
	Distances []uint64
}

// HugePages is a node's pool of one page size.
type HugePages struct {
	// PageSize is in bytes, a multiple of 1024.
	PageSize uint64
	Pages    uint64
}

// Cache is a last-level cache.
type Cache struct {
	ID int
	// Size is in bytes, or 0 where it is not known.
	Size uint64
}

// CoreID names a physical core on the whole machine.
type CoreID struct{ Socket, Core int }

// CoreID is the core that the CPU is a thread of.
func (c CPU) CoreID() CoreID { return CoreID{c.Socket, c.Core} }

func (id CoreID) String() string { return fmt.Sprintf("core %d of socket %d", id.Core, id.Socket) }

// Online is the IDs of the CPUs.
func (m Machine) Online() cpuset.CPUSet {
	ids := make([]int, len(m.CPUs))
	for i, c := range m.CPUs {
		ids[i] = c.ID
	}
	return cpuset.New(ids...)
}

// Memory is the memory of the whole machine in bytes.
func (m Machine) Memory() uint64 {
	if m.Capacity != 0 {
		return m.Capacity
	}
	return m.ofNodes()
}

// ofNodes is the memory of all nodes together.
func (m Machine) ofNodes() uint64 {
	var sum uint64
	for _, n := range m.Nodes {
		sum += n.Memory
	}
	return sum
}

// Without is the machine after the CPUs have been taken offline. Nodes stay,
// as they do in the kernel, with or without CPUs. It fails for CPUs that the
// machine does not have and when none would be left.
func (m Machine) Without(offline cpuset.CPUSet) (Machine, error) {
	online := m.Online()
	if unknown := offline.Difference(online); !unknown.IsEmpty() {
		return Machine{}, fmt.Errorf("machine %s: CPUs %q cannot go offline, online are %q", m.Name, unknown, online)
	}
	if offline.Equals(online) {
		return Machine{}, fmt.Errorf("machine %s: all of its CPUs %q would be offline", m.Name, online)
	}
	// What is not changed may be shared, but never appended to.
	m.Nodes, m.Sources = slices.Clip(m.Nodes), slices.Clip(m.Sources)
	m.CPUs = slices.DeleteFunc(slices.Clone(m.CPUs), func(c CPU) bool { return offline.Contains(c.ID) })
	used := map[int]bool{}
	for _, c := range m.CPUs {
		used[c.Cache] = true
	}
	if m.Caches = slices.DeleteFunc(slices.Clone(m.Caches), func(c Cache) bool { return !used[c.ID] }); len(m.Caches) == 0 {
		m.Caches = nil // as of a machine that never had any
	}
	return m, nil
}

// Validate fails for a machine that cannot be, and names what contradicts what:
// IDs that are out of range or stand twice, a core on two nodes, rows of
// distances that do not have one number for each node, more hugepages than
// memory.
func (m Machine) Validate() error {
	if len(m.CPUs) == 0 {
		return errors.New("the machine has no CPUs")
	}
	nodes, err := m.validateNodes()
	if err != nil {
		return err
	}
	if err := m.validateCaches(); err != nil {
		return err
	}
	first := map[CoreID]CPU{}
	previous := -1
	for _, c := range m.CPUs {
		switch {
		case c.ID < 0 || c.ID > MaxCPU:
			return fmt.Errorf("CPU %d is outside the supported range 0-%d", c.ID, MaxCPU)
		case c.ID == previous:
			return fmt.Errorf("CPU %d is listed twice", c.ID)
		case c.ID < previous:
			return fmt.Errorf("CPU %d is listed after CPU %d", c.ID, previous)
		case !nodes[c.Node]:
			return fmt.Errorf("CPU %d is on NUMA node %d, the machine has the nodes %v", c.ID, c.Node, slices.Sorted(maps.Keys(nodes)))
		case c.Core < 0 || c.Core > maxID || c.Socket < 0 || c.Socket > maxID:
			return fmt.Errorf("CPU %d is on core %d of socket %d, the supported range of both is 0-%d", c.ID, c.Core, c.Socket, maxID)
		}
		previous = c.ID
		one, known := first[c.CoreID()]
		if !known {
			first[c.CoreID()] = c
		} else if one.Node != c.Node || one.Cache != c.Cache {
			return fmt.Errorf("%s has CPU %d on NUMA node %d with %s and CPU %d on NUMA node %d with %s",
				c.CoreID(), one.ID, one.Node, cacheName(one.Cache), c.ID, c.Node, cacheName(c.Cache))
		}
	}
	return nil
}

func cacheName(id int) string {
	if id == NoCache {
		return "no cache"
	}
	return fmt.Sprintf("cache %d", id)
}

func (m Machine) validateNodes() (map[int]bool, error) {
	ids := map[int]bool{}
	previous, left := -1, uint64(maxBytes)
	if m.Capacity > maxBytes {
		return nil, fmt.Errorf("the machine has %d bytes of memory, at most %d are supported", m.Capacity, uint64(maxBytes))
	}
	if m.Capacity != 0 && m.Capacity == m.ofNodes() {
		return nil, fmt.Errorf("the machine's %d bytes of memory are the sum of the NUMA nodes', and must not be told", m.Capacity)
	}
	if len(m.Nodes) > MaxNodes {
		return nil, fmt.Errorf("the machine has %d NUMA nodes, at most %d are supported", len(m.Nodes), MaxNodes)
	}
	for i, n := range m.Nodes {
		switch {
		case n.ID < 0 || n.ID > maxID:
			return nil, fmt.Errorf("NUMA node %d is outside the supported range 0-%d", n.ID, maxID)
		case ids[n.ID]:
			return nil, fmt.Errorf("NUMA node %d is listed twice", n.ID)
		case n.ID < previous:
			return nil, fmt.Errorf("NUMA node %d is listed after node %d", n.ID, previous)
		case n.Distances != nil && len(n.Distances) != len(m.Nodes):
			return nil, fmt.Errorf("NUMA node %d has %d distances, the machine has %d nodes", n.ID, len(n.Distances), len(m.Nodes))
		case (n.Distances == nil) != (m.Nodes[0].Distances == nil):
			return nil, fmt.Errorf("of the NUMA nodes %d and %d only one has distances", m.Nodes[0].ID, m.Nodes[i].ID)
		case n.Memory > left:
			return nil, fmt.Errorf("the NUMA nodes up to node %d have more than the supported %d bytes of memory", n.ID, uint64(maxBytes))
		case len(n.Distances) > 0 && slices.Max(n.Distances) > maxDistance:
			return nil, fmt.Errorf("NUMA node %d has the distance %d, at most %d is supported", n.ID, slices.Max(n.Distances), maxDistance)
		}
		ids[n.ID], previous = true, n.ID
		left -= n.Memory
		if err := n.validateHugePages(); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (n Node) validateHugePages() error {
	left, previous := n.Memory, uint64(0)
	for _, h := range n.HugePages {
		switch {
		case h.PageSize == 0 || h.PageSize%1024 != 0:
			return fmt.Errorf("NUMA node %d has hugepages of %d bytes, which is not a positive multiple of 1024", n.ID, h.PageSize)
		case h.PageSize > maxBytes:
			return fmt.Errorf("NUMA node %d has hugepages of %d bytes, at most %d are supported", n.ID, h.PageSize, uint64(maxBytes))
		case h.PageSize <= previous:
			return fmt.Errorf("NUMA node %d has hugepages of %d bytes after those of %d bytes", n.ID, h.PageSize, previous)
		case h.Pages > left/h.PageSize:
			return fmt.Errorf("NUMA node %d has %d hugepages of %d bytes, but of its %d bytes of memory only %d are left for them",
				n.ID, h.Pages, h.PageSize, n.Memory, left)
		}
		left -= h.Pages * h.PageSize
		previous = h.PageSize
	}
	return nil
}

// validateCaches checks that Caches is exactly the caches that CPUs use.
func (m Machine) validateCaches() error {
	used := map[int]int{}
	for _, c := range m.CPUs {
		if c.Cache < NoCache || c.Cache > maxID {
			return fmt.Errorf("CPU %d uses cache %d, which is outside the supported range 0-%d", c.ID, c.Cache, maxID)
		}
		if c.Cache != NoCache {
			used[c.Cache] = c.ID
		}
	}
	previous := -1
	for _, c := range m.Caches {
		_, ok := used[c.ID]
		switch {
		case c.ID == previous:
			return fmt.Errorf("cache %d is listed twice", c.ID)
		case c.ID < previous:
			return fmt.Errorf("cache %d is listed after cache %d", c.ID, previous)
		case !ok:
			return fmt.Errorf("cache %d is listed, but no CPU uses it", c.ID)
		case c.Size > maxBytes:
			return fmt.Errorf("cache %d has %d bytes, at most %d are supported", c.ID, c.Size, uint64(maxBytes))
		}
		previous = c.ID
		delete(used, c.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(used)) {
		return fmt.Errorf("CPU %d uses cache %d, which is not listed", used[id], id)
	}
	return nil
}

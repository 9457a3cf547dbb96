// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	cadvisorapi "github.com/google/cadvisor/lib/model"
)

// MachineInfo is what cAdvisor reports of the machine on Linux, as far as it
// has to do with CPUs, caches, nodes and memory. Caches of levels 1 and 2, which
// nothing here looks at, are left out. Where cAdvisor is odd, so is this:
//
//   - Nodes, and the CPUs of a node, come in the order of their names as text:
//     node 10 before node 2. Distances are in the order of the IDs.
//   - Offline CPUs are absent, and so is a core without any online CPU.
//   - A cache that is shared by exactly as many CPUs as the node would have if
//     all its cores were like this one is listed with the node, any other with
//     the core. Which it is depends on the CPUs that are online.
//   - NumPhysicalCores counts core IDs, which repeat from socket to socket.
func (m Machine) MachineInfo() *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{
		NumCores:       len(m.CPUs),
		MemoryCapacity: m.Memory(),
		CloudProvider:  cadvisorapi.UnknownProvider,
		InstanceType:   cadvisorapi.UnknownInstance,
	}
	coreIDs, sockets, sharing := map[int]bool{}, map[int]bool{}, map[int]int{}
	for _, c := range m.CPUs {
		coreIDs[c.Core], sockets[c.Socket] = true, true
		sharing[c.Cache]++
	}
	info.NumPhysicalCores, info.NumSockets = len(coreIDs), len(sockets)

	caches := map[int]cadvisorapi.Cache{}
	for _, c := range m.Caches {
		caches[c.ID] = cadvisorapi.Cache{Id: c.ID, Size: c.Size, Type: "Unified", Level: 3}
	}
	cpus := map[int][]CPU{} // by node
	for _, c := range m.CPUs {
		cpus[c.Node] = append(cpus[c.Node], c)
	}
	total := map[uint64]uint64{}
	for _, n := range m.Nodes {
		node := cadvisorapi.Node{Id: n.ID, Memory: n.Memory, Distances: slices.Clone(n.Distances)}
		for _, h := range n.HugePages {
			node.HugePages = append(node.HugePages, hugePagesInfo(h))
			total[h.PageSize] += h.Pages
		}
		slices.SortFunc(node.HugePages, comparePageSizes)
		node.Cores = coresOf(cpus[n.ID])
		addCaches(&node, cpus[n.ID], caches, sharing)
		info.Topology = append(info.Topology, node)
	}
	for size, pages := range total {
		info.HugePages = append(info.HugePages, hugePagesInfo(HugePages{PageSize: size, Pages: pages}))
	}
	slices.SortFunc(info.HugePages, comparePageSizes)
	slices.SortFunc(info.Topology, func(a, b cadvisorapi.Node) int { return compareText(a.Id, b.Id) })
	return info
}

// coresOf is the cores of one node's CPUs, in the order in which cAdvisor finds
// them.
func coresOf(cpus []CPU) []cadvisorapi.Core {
	cpus = slices.Clone(cpus)
	slices.SortFunc(cpus, func(a, b CPU) int { return compareText(a.ID, b.ID) })
	var cores []cadvisorapi.Core
	index := map[CoreID]int{}
	for _, c := range cpus {
		i, known := index[c.CoreID()]
		if !known {
			i = len(cores)
			index[c.CoreID()] = i
			cores = append(cores, cadvisorapi.Core{Id: c.Core, SocketID: c.Socket})
		}
		cores[i].Threads = append(cores[i].Threads, c.ID)
	}
	return cores
}

// addCaches lists the caches of the node's CPUs with the node or the cores.
// sharing is how many CPUs of the machine use each.
func addCaches(node *cadvisorapi.Node, cpus []CPU, caches map[int]cadvisorapi.Cache, sharing map[int]int) {
	cacheOf := map[int]int{}
	for _, c := range cpus {
		cacheOf[c.ID] = c.Cache
	}
	for i := range node.Cores {
		core := &node.Cores[i]
		cache, told := caches[cacheOf[core.Threads[0]]]
		switch {
		case !told:
		case sharing[cache.Id] != len(node.Cores)*len(core.Threads):
			core.UncoreCaches = []cadvisorapi.Cache{cache}
		case !slices.Contains(node.Caches, cache):
			node.Caches = append(node.Caches, cache)
		}
	}
}

// cAdvisor tells page sizes in KiB.
func hugePagesInfo(h HugePages) cadvisorapi.HugePagesInfo {
	return cadvisorapi.HugePagesInfo{PageSize: h.PageSize / 1024, NumPages: h.Pages}
}

func comparePageSizes(a, b cadvisorapi.HugePagesInfo) int {
	return cmp.Compare(fmt.Sprintf("%dkB", a.PageSize), fmt.Sprintf("%dkB", b.PageSize))
}

func compareText(a, b int) int { return cmp.Compare(strconv.Itoa(a), strconv.Itoa(b)) }

// FromMachineInfo reads a machine from what cAdvisor reported, for example a
// recorded JSON. It fails for a report that contradicts itself. A core's
// last-level cache is the first that is listed with it above level 2 or, where
// none is, the first of its node. A cache that is all of one node's cannot be
// another node's: reports without the kernel's cache IDs have 0 everywhere, and
// then such a cache gets the lowest ID that is free. Caches of one ID are one; if
// their sizes differ, it has none.
func FromMachineInfo(name string, info *cadvisorapi.MachineInfo) (Machine, error) {
	m, err := fromMachineInfo(info)
	if err != nil {
		return Machine{}, fmt.Errorf("machine %s: %w", name, err)
	}
	m.Name = name
	return m, nil
}

func fromMachineInfo(info *cadvisorapi.MachineInfo) (Machine, error) {
	var m Machine
	sizes := map[int]uint64{}
	ofNode := nodeCaches(info.Topology)
	for i, node := range info.Topology {
		n := Node{ID: node.Id, Memory: node.Memory, Distances: slices.Clone(node.Distances)}
		for _, h := range node.HugePages {
			if h.PageSize > 1<<50 {
				return Machine{}, fmt.Errorf("NUMA node %d has hugepages of %d KiB", node.Id, h.PageSize)
			}
			n.HugePages = append(n.HugePages, HugePages{PageSize: h.PageSize * 1024, Pages: h.NumPages})
		}
		slices.SortFunc(n.HugePages, func(a, b HugePages) int { return cmp.Compare(a.PageSize, b.PageSize) })
		m.Nodes = append(m.Nodes, n)
		for _, core := range node.Cores {
			if len(core.Threads) == 0 {
				return Machine{}, fmt.Errorf("%s on NUMA node %d has no threads", CoreID{core.SocketID, core.Id}, node.Id)
			}
			cache := NoCache
			if found, ok := lastLevel(core.UncoreCaches, ofNode[i]); ok {
				if size, known := sizes[found.Id]; known && size != found.Size {
					found.Size = 0
				}
				cache, sizes[found.Id] = found.Id, found.Size
			}
			for _, thread := range core.Threads {
				m.CPUs = append(m.CPUs, CPU{ID: thread, Core: core.Id, Socket: core.SocketID, Node: node.Id, Cache: cache})
			}
		}
	}
	slices.SortStableFunc(m.CPUs, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(m.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	m.Caches = cachesOf(m.CPUs, sizes)
	if info.MemoryCapacity != m.ofNodes() {
		m.Capacity = info.MemoryCapacity
	}
	// There may be more: on a kernel without NUMA nodes cAdvisor counts CPUs that
	// are offline too.
	if info.NumCores < len(m.CPUs) {
		return Machine{}, fmt.Errorf("%d CPUs are reported, the NUMA nodes have %d", info.NumCores, len(m.CPUs))
	}
	return m, m.Validate()
}

// nodeCaches is the last-level cache of each node, if it has one, with IDs that
// differ.
func nodeCaches(nodes []cadvisorapi.Node) [][]cadvisorapi.Cache {
	used := map[int]bool{}
	for _, node := range nodes {
		for _, core := range node.Cores {
			for _, c := range core.UncoreCaches {
				used[c.Id] = true
			}
		}
		for _, c := range node.Caches {
			used[c.Id] = true
		}
	}
	caches := make([][]cadvisorapi.Cache, len(nodes))
	given := map[int]bool{}
	free := 0
	for i, node := range nodes {
		c, ok := lastLevel(node.Caches)
		if !ok {
			continue
		}
		if given[c.Id] {
			for used[free] {
				free++
			}
			c.Id = free
			used[free] = true
		}
		given[c.Id] = true
		caches[i] = []cadvisorapi.Cache{c}
	}
	return caches
}

func lastLevel(lists ...[]cadvisorapi.Cache) (cadvisorapi.Cache, bool) {
	for _, list := range lists {
		for _, c := range list {
			if c.Level > 2 {
				return c, true
			}
		}
	}
	return cadvisorapi.Cache{}, false
}

// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/topology"
)

// Shape is a machine of equal NUMA nodes, one to a socket. CPU i and CPU
// i+nodes*cores are threads of one core.
type Shape struct {
	Nodes, Cores, Threads int
	Memory                resource.Quantity
	// Hugepages2Mi and Hugepages1Gi are numbers of pages on each node.
	Hugepages2Mi, Hugepages1Gi int
}

// MachineInfo is the machine as cAdvisor tells it.
func (s Shape) MachineInfo() *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{NumCores: s.Nodes * s.Cores * s.Threads, NumSockets: s.Nodes}
	for id := range s.Nodes {
		node := cadvisorapi.Node{
			Id: id, Memory: uint64(s.Memory.Value()),
			HugePages: []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: uint64(s.Hugepages2Mi)}},
		}
		if s.Hugepages1Gi > 0 {
			node.HugePages = append(node.HugePages, cadvisorapi.HugePagesInfo{PageSize: 1 << 20, NumPages: uint64(s.Hugepages1Gi)})
		}
		for other := range s.Nodes {
			distance := uint64(20)
			if other == id {
				distance = 10
			}
			node.Distances = append(node.Distances, distance)
		}
		for core := range s.Cores {
			c := cadvisorapi.Core{Id: core, SocketID: id}
			for thread := range s.Threads {
				c.Threads = append(c.Threads, id*s.Cores+core+thread*s.Nodes*s.Cores)
			}
			node.Cores = append(node.Cores, c)
		}
		info.Topology = append(info.Topology, node)
	}
	return info
}

// firstWithMemory is the lowest ID of a NUMA node that has memory to reserve.
func firstWithMemory(info *cadvisorapi.MachineInfo) int {
	first := -1
	for _, node := range info.Topology {
		if node.Memory > 0 && (first < 0 || node.Id < first) {
			first = node.Id
		}
	}
	return first
}

// Reserved is the reserved CPUs.
func (n *Node) Reserved() cpuset.CPUSet {
	return n.CPU.GetAllCPUs().Difference(n.CPU.GetAllocatableCPUs())
}

// ReadTopology is what the CPU manager reads.
func (n *Node) ReadTopology() *topology.CPUTopology {
	if n.readOf == n.Info {
		return n.read
	}
	read, err := topology.Discover(n.Logger, n.Info)
	if err != nil {
		n.TB.Fatal(err)
	}
	n.read, n.readOf = read, n.Info
	return read
}

// Units groups the CPUs by the ID of something that they are in.
func Units(read *topology.CPUTopology, id func(topology.CPUInfo) int) map[int]cpuset.CPUSet {
	members := map[int][]int{}
	for cpu, info := range read.CPUDetails {
		members[id(info)] = append(members[id(info)], cpu)
	}
	sets := map[int]cpuset.CPUSet{}
	for unit, cpus := range members {
		sets[unit] = cpuset.New(cpus...)
	}
	return sets
}

// What CPUs can be grouped by.
func ByCore(info topology.CPUInfo) int   { return info.CoreID }
func BySocket(info topology.CPUInfo) int { return info.SocketID }
func ByNode(info topology.CPUInfo) int   { return info.NUMANodeID }
func ByCache(info topology.CPUInfo) int  { return info.UncoreCacheID }

// DescribeMachine is what the managers read of the machine. Units of one kind
// that have the same CPUs as those of another kind are not written out again.
func (n *Node) DescribeMachine() string {
	read := n.ReadTopology()
	nodes, sockets, caches := Units(read, ByNode), Units(read, BySocket), Units(read, ByCache)
	var b strings.Builder
	fmt.Fprintf(&b, "%d CPUs, cores: %s, reserved %s\n", read.NumCPUs, coreSizes(read), n.Reserved())

	allocatable := map[int]uint64{}
	for _, block := range n.Memory.GetAllocatableMemory(n.Logger) {
		if block.Type == v1.ResourceMemory {
			for _, id := range block.NUMAAffinity {
				allocatable[id] = block.Size
			}
		}
	}
	// Nodes without CPUs are many and alike.
	without := map[uint64][]int{}
	infos := slices.Clone(n.Info.Topology)
	slices.SortFunc(infos, func(a, b cadvisorapi.Node) int { return cmp.Compare(a.Id, b.Id) })
	for _, info := range infos {
		if cpus, ok := nodes[info.Id]; ok {
			fmt.Fprintf(&b, "node %d: cpus %s, memory %s of %s\n", info.Id, cpus, quantity(allocatable[info.Id]), quantity(info.Memory))
		} else {
			without[info.Memory] = append(without[info.Memory], info.Id)
		}
	}
	for _, memory := range slices.Backward(slices.Sorted(maps.Keys(without))) {
		fmt.Fprintf(&b, "nodes %s: no cpus, memory %s\n", cpuset.New(without[memory]...), quantity(memory))
	}
	writeUnits(&b, "socket", sockets, "node", nodes)
	if sameUnits(caches, sockets) {
		b.WriteString("caches: one a socket\n")
	} else {
		writeUnits(&b, "cache", caches, "node", nodes)
	}
	return b.String()
}

func writeUnits(b *strings.Builder, kind string, sets map[int]cpuset.CPUSet, other string, others map[int]cpuset.CPUSet) {
	if sameUnits(sets, others) {
		fmt.Fprintf(b, "%ss: one a %s\n", kind, other)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(sets)) {
		fmt.Fprintf(b, "%s %d: cpus %s\n", kind, id, sets[id])
	}
}

func sameUnits(a, b map[int]cpuset.CPUSet) bool {
	texts := func(sets map[int]cpuset.CPUSet) (all []string) {
		for _, set := range sets {
			all = append(all, set.String())
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(texts(a), texts(b))
}

// coreSizes says how many cores there are of each number of threads.
func coreSizes(read *topology.CPUTopology) string {
	count := map[int]int{}
	for _, cpus := range Units(read, ByCore) {
		count[cpus.Size()]++
	}
	var parts []string
	for _, threads := range slices.Backward(slices.Sorted(maps.Keys(count))) {
		parts = append(parts, fmt.Sprintf("%d of %d", count[threads], threads))
	}
	return strings.Join(parts, " and ")
}

// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/utils/cpuset"
)

// CPU is an online CPU and where it sits. Core is an ID that is unique on the
// machine. Cache is -1 where the machine does not tell its last-level caches.
type CPU struct {
	ID, Core, Node, Socket, Cache int
}

// Node is a NUMA node, with or without CPUs.
type Node struct {
	ID        int
	MemoryMiB int
}

// Machine is what the kubelet reads of the hardware.
type Machine struct {
	// Shape says in words how the machine was made.
	Shape string
	CPUs  []CPU
	Nodes []Node
}

// All is the online CPUs.
func (m Machine) All() cpuset.CPUSet {
	ids := make([]int, len(m.CPUs))
	for i, c := range m.CPUs {
		ids[i] = c.ID
	}
	return cpuset.New(ids...)
}

// CPUNodes is the IDs of the NUMA nodes that have CPUs, ascending.
func (m Machine) CPUNodes() []int {
	return m.units(func(c CPU) int { return c.Node })
}

func (m Machine) units(of func(CPU) int) []int {
	var ids []int
	for _, c := range m.CPUs {
		ids = append(ids, of(c))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Siblings is the CPUs that share a core with the given one, itself included.
func (m Machine) Siblings(cpu int) []int {
	var ids []int
	for _, c := range m.CPUs {
		if c.ID == cpu {
			for _, other := range m.CPUs {
				if other.Core == c.Core {
					ids = append(ids, other.ID)
				}
			}
		}
	}
	return ids
}

// Regular reports whether all cores, all sockets and all nodes with CPUs have
// as many CPUs as their peers.
func (m Machine) Regular() bool {
	return m.equal(func(c CPU) int { return c.Core }) && m.equal(func(c CPU) int { return c.Socket }) && m.equal(func(c CPU) int { return c.Node })
}

func (m Machine) equal(of func(CPU) int) bool {
	sizes := map[int]int{}
	for _, c := range m.CPUs {
		sizes[of(c)]++
	}
	first := -1
	for _, size := range sizes {
		if first >= 0 && size != first {
			return false
		}
		first = size
	}
	return true
}

// Info is the machine as cAdvisor describes it.
func (m Machine) Info() *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{NumCores: len(m.CPUs), NumSockets: len(m.units(func(c CPU) int { return c.Socket }))}
	for _, node := range m.Nodes {
		n := cadvisorapi.Node{Id: node.ID, Memory: uint64(node.MemoryMiB) << 20}
		for _, other := range m.Nodes {
			distance := uint64(20)
			if other.ID == node.ID {
				distance = 10
			}
			n.Distances = append(n.Distances, distance)
		}
		byCore := map[int]int{}
		for _, c := range m.CPUs {
			if c.Node != node.ID {
				continue
			}
			i, known := byCore[c.Core]
			if !known {
				i = len(n.Cores)
				byCore[c.Core] = i
				core := cadvisorapi.Core{Id: i, SocketID: c.Socket}
				if c.Cache >= 0 {
					core.UncoreCaches = []cadvisorapi.Cache{{Id: c.Cache, Level: 3, Type: "Unified"}}
				}
				n.Cores = append(n.Cores, core)
			}
			n.Cores[i].Threads = append(n.Cores[i].Threads, c.ID)
		}
		info.Topology = append(info.Topology, n)
	}
	return info
}

// String lists the cores by socket and node: "socket 0 node 0 [cache 0] 0,4 1,5".
func (m Machine) String() string {
	type place struct{ socket, node, cache int }
	cores := map[place]map[int][]int{}
	var places []place
	for _, c := range m.CPUs {
		p := place{c.Socket, c.Node, c.Cache}
		if cores[p] == nil {
			cores[p] = map[int][]int{}
			places = append(places, p)
		}
		cores[p][c.Core] = append(cores[p][c.Core], c.ID)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.socket, b.socket), cmp.Compare(a.node, b.node), cmp.Compare(a.cache, b.cache))
	})
	var lines []string
	for _, p := range places {
		line := fmt.Sprintf("socket %d node %d", p.socket, p.node)
		if p.cache >= 0 {
			line += fmt.Sprintf(" cache %d", p.cache)
		}
		var list [][]int
		for _, ids := range cores[p] {
			slices.Sort(ids)
			list = append(list, ids)
		}
		slices.SortFunc(list, slices.Compare)
		for _, ids := range list {
			line += "  " + cpuset.New(ids...).String()
		}
		lines = append(lines, line)
	}
	for _, n := range m.Nodes {
		if !slices.Contains(m.CPUNodes(), n.ID) {
			lines = append(lines, fmt.Sprintf("node %d without CPUs", n.ID))
		}
	}
	return strings.Join(lines, "\n")
}

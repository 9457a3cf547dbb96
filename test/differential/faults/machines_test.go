// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// grid is a regular machine: CPU i and CPU i plus the number of cores are
// threads of one core, and each NUMA node has so many GiB.
func grid(sockets, nodes, cores, threads int, gi uint64) machine.Machine {
	m := machine.Machine{Name: "grid"}
	all := sockets * nodes * cores
	for i := range all * threads {
		c := i % all
		m.CPUs = append(m.CPUs, machine.CPU{ID: i, Core: c % (nodes * cores), Socket: c / cores / nodes, Node: c / cores, Cache: machine.NoCache})
	}
	for id := range sockets * nodes {
		node := machine.Node{ID: id, Memory: gi << 30}
		for other := range sockets * nodes {
			distance := uint64(20)
			if other == id {
				distance = 10
			}
			node.Distances = append(node.Distances, distance)
		}
		m.Nodes = append(m.Nodes, node)
	}
	return m
}

// withHugePages puts pages of 2Mi on each node.
func withHugePages(m machine.Machine, pages uint64) machine.Machine {
	for i := range m.Nodes {
		m.Nodes[i].HugePages = []machine.HugePages{{PageSize: 2 << 20, Pages: pages}}
	}
	return m
}

// parsed is a machine in the format of package machine.
func parsed(text string) machine.Machine {
	m, err := machine.Parse("scenario", []byte(text))
	must(err)
	return m
}

func fromCatalog(name string) machine.Machine {
	m, err := catalog.Get(name)
	must(err)
	return m
}

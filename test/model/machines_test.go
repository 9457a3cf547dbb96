// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/test/differential/scenario"
)

// hardware is a machine as the event node names it.
type hardware struct {
	args, written string
	cpus          cpuset.CPUSet
	nodes         []int
	perNode       int
	memoryMiB     int // of a node
	hugepages     bool
}

// small are the machines of the catalogue on which little is enough to fill them,
// large those that are odd by their size; these cost a lot.
var (
	small = []string{"kvm-4", "intel-i7-14700", "amd-threadripper-3960x-nps4"}
	large = []string{"nvidia-gb200", "ibm-power9", "hpe-superdome-flex", "intel-xeon-6980p-snc3"}
)

func (g *generator) hardware() hardware {
	switch n := g.IntN(40); {
	case n < 20:
		return g.shape()
	case n < 38:
		return g.odd()
	case n < 39:
		return g.catalogued(pick(g, small...))
	default:
		return g.catalogued(pick(g, append(slices.Clone(large), small...)...))
	}
}

// shape is a small machine of equal nodes.
func (g *generator) shape() hardware {
	nodes, cores, threads := 1+g.IntN(4), 1+g.IntN(4), 1+g.IntN(2)
	if nodes*cores*threads < 2 {
		cores++
	}
	h := hardware{memoryMiB: 2048 << g.IntN(3), perNode: cores * threads}
	h.args = fmt.Sprintf("nodes=%d cores=%d threads=%d memory=%dMi", nodes, cores, threads, h.memoryMiB)
	if g.IntN(3) == 0 {
		h.hugepages = true
		h.args += fmt.Sprintf(" hugepages=%d", 64<<g.IntN(3))
	}
	var all []int
	for i := range nodes * cores * threads {
		all = append(all, i)
	}
	for i := range nodes {
		h.nodes = append(h.nodes, i)
	}
	h.cpus = cpuset.New(all...)
	return h
}

// odd is a machine of the differential tests: unequal, hybrid, with gaps and
// nodes that have no CPUs.
func (g *generator) odd() hardware {
	m := scenario.Generate(g.Uint64(), scenario.Limits{Nodes: 4, Options: [][]string{nil}, Crossed: g.IntN(4) == 0}).Machine
	h := hardware{memoryMiB: 2048 << g.IntN(3), cpus: m.All(), perNode: max(1, len(m.CPUs)/len(m.CPUNodes()))}
	h.hugepages = g.IntN(3) == 0
	pages := 64 << g.IntN(3)
	lines := []string{"name: odd", "nodes:"}
	for i, node := range m.Nodes {
		h.nodes = append(h.nodes, node.ID)
		line := fmt.Sprintf("- {id: %d, memory: %dMi", node.ID, h.memoryMiB)
		if h.hugepages {
			line += fmt.Sprintf(", hugepages: {2Mi: %d}", pages)
		}
		var distances []string
		for j := range m.Nodes {
			distances = append(distances, []string{"20", "10"}[b2i(i == j)])
		}
		lines = append(lines, line+", distances: "+strings.Join(distances, " ")+"}")
	}
	lines = append(lines, "cpus:")
	cores := map[int][]scenario.CPU{}
	for _, c := range m.CPUs {
		cores[c.Core] = append(cores[c.Core], c)
	}
	for _, core := range slices.Sorted(maps.Keys(cores)) {
		cpus := cores[core]
		var ids []string
		for _, c := range cpus {
			ids = append(ids, fmt.Sprint(c.ID))
		}
		line := fmt.Sprintf("- {cpus: %q, threads: %d, cores: %q, socket: %d, node: %d", strings.Join(ids, ","), len(cpus), fmt.Sprint(core), cpus[0].Socket, cpus[0].Node)
		if cpus[0].Cache >= 0 {
			line += fmt.Sprintf(", cache: %d", cpus[0].Cache)
		}
		lines = append(lines, line+"}")
	}
	h.written = strings.Join(lines, "\n")
	return h
}

func (g *generator) catalogued(name string) hardware {
	m, err := catalog.Get(name)
	if err != nil {
		panic(err)
	}
	h := hardware{args: "machine=" + name, cpus: m.Online()}
	withCPUs := map[int]bool{}
	for _, c := range m.CPUs {
		withCPUs[c.Node] = true
	}
	for _, node := range m.Nodes {
		h.nodes = append(h.nodes, node.ID)
		h.memoryMiB = max(h.memoryMiB, int(node.Memory>>20))
	}
	h.perNode = max(1, h.cpus.Size()/len(withCPUs))
	return h
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func pick[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

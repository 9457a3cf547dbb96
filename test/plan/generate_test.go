// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/test/differential/scenario"
	"github.com/podslice/podslice/test/simnode"
)

// generator makes nodes and pods that fill them.
type generator struct {
	*rand.Rand
	cpus, perNode, memoryMiB int
}

func pick[T any](g *generator, choices ...T) T { return choices[g.IntN(len(choices))] }

// cpuOptions are the sets of options of the static policy that may be.
var cpuOptions = [][]string{
	nil, nil, {scenario.FullPCPUs}, {scenario.FullPCPUs, scenario.Strict}, {scenario.Strict}, {scenario.AcrossNUMA}, {scenario.AcrossCores},
	{scenario.BySocket}, {scenario.Uncore}, {scenario.Uncore, scenario.FullPCPUs}, {scenario.AcrossNUMA, scenario.FullPCPUs},
	{scenario.AcrossNUMA, scenario.BySocket}, {scenario.Strict, scenario.AcrossCores},
}

// node sets a node up. Not every configuration can be.
func (g *generator) node(n *simnode.Node, machine string) {
	n.TopologyPolicy = pick(g, "none", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node")
	n.Scope = pick(g, "pod", "pod", "container")
	n.Gate = g.IntN(5) > 0
	n.CPUPolicy, n.MemoryPolicy = pick(g, "static", "static", "static", "static", "static", "static", "static", "none"), pick(g, "Static", "Static", "Static", "Static", "Static", "Static", "None")
	n.CPUOptions, n.TopologyOptions = map[string]string{}, map[string]string{}
	if n.CPUPolicy == "static" {
		for _, name := range pick(g, cpuOptions...) {
			n.CPUOptions[name] = "true"
		}
	}
	switch g.IntN(8) {
	case 0:
		n.TopologyOptions["numa-tie-break"] = pick(g, "most-allocated", "least-allocated")
	case 1:
		n.TopologyOptions["best-effort-locality"] = "true"
	case 2:
		n.TopologyOptions["prefer-closest-numa-nodes"] = "true"
	}
	n.Info = g.machine(machine)
	g.cpus, g.memoryMiB = n.Info.NumCores, 0
	withCPUs := 0
	var all []int
	for _, node := range n.Info.Topology {
		g.memoryMiB = max(g.memoryMiB, int(node.Memory>>20))
		if len(node.Cores) > 0 {
			withCPUs++
		}
		for _, core := range node.Cores {
			all = append(all, core.Threads...)
		}
	}
	g.perNode = max(1, g.cpus/max(1, withCPUs))
	slices.Sort(all)
	n.ReservedCPUs, n.Reserve = cpuset.New(), 1+g.IntN(3)
	if g.IntN(2) == 0 {
		n.ReservedCPUs = cpuset.New(all[:min(n.Reserve, len(all)-1)]...)
	}
}

func (g *generator) machine(name string) *cadvisorapi.MachineInfo {
	if name != "" {
		m, err := catalog.Get(name)
		if err != nil {
			panic(err)
		}
		info := m.MachineInfo()
		for i, node := range info.Topology {
			if node.Memory > 0 && g.IntN(2) == 0 {
				info.Topology[i].HugePages = []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: 512}}
			}
		}
		return info
	}
	if g.IntN(2) == 0 {
		return simnode.Shape{
			Nodes: 1 + g.IntN(4), Cores: 2 + g.IntN(4), Threads: 1 + g.IntN(2), Hugepages2Mi: 256 * g.IntN(2), Hugepages1Gi: g.IntN(2),
			Memory: *resource.NewQuantity(int64(4<<g.IntN(3))<<30, resource.BinarySI),
		}.MachineInfo()
	}
	info := scenario.Generate(g.Uint64(), scenario.Limits{Nodes: 4, Options: [][]string{nil}, Crossed: g.IntN(4) == 0}).Machine.Info()
	core := 0
	for i := range info.Topology {
		info.Topology[i].Memory = uint64(4<<g.IntN(3)) << 30
		for j := range info.Topology[i].Cores {
			info.Topology[i].Cores[j].Id = core // the scenario's are not unique in a socket
			core++
		}
	}
	return info
}

// pod is a pod as podtext reads it.
func (g *generator) pod(name string) string {
	budget := g.IntN(5) < 3
	// Some pods are not Guaranteed.
	burstable := g.IntN(10) == 0
	var lines []string
	var milli, memory, huge int
	container := func(kind, name string) {
		line := kind + " " + name
		if budget && g.IntN(5) < 2 {
			lines = append(lines, line) // shares
			return
		}
		cpu, mem := 1000*g.cpuCount(), g.memoryCount()
		if g.IntN(12) == 0 {
			cpu -= 500
		}
		limit := ""
		if burstable || budget && g.IntN(8) == 0 {
			limit = "<" + cores(cpu+1000)
		}
		line += fmt.Sprintf(" cpu=%s%s memory=%dMi", cores(cpu), limit, mem)
		if g.IntN(8) == 0 {
			line += " hugepages-2Mi=64Mi"
			huge += 64
		}
		milli, memory = milli+cpu, memory+mem
		lines = append(lines, line)
	}
	for i := range g.IntN(7) / 3 {
		container(pick(g, "init", "sidecar", "sidecar"), fmt.Sprintf("i%d", i))
	}
	for i := range 1 + g.IntN(5)/3 + g.IntN(6)/5 {
		container("app", fmt.Sprintf("a%d", i))
	}
	if budget {
		whole := (milli+999)/1000*1000 + 1000*g.IntN(3)
		if g.IntN(12) == 0 {
			whole += 500
		}
		name += fmt.Sprintf(" cpu=%s memory=%dMi", cores(max(whole, 1000)), memory+64*(1+g.IntN(4)))
		if huge > 0 && g.IntN(2) == 0 {
			name += fmt.Sprintf(" hugepages-2Mi=%dMi", huge)
		}
	}
	return name + "\n" + strings.Join(lines, "\n")
}

func cores(milli int) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%dm", milli)
}

// cpuCount is mostly little, sometimes as much as a node or the machine has.
func (g *generator) cpuCount() int {
	switch n := g.IntN(16); {
	case n < 6:
		return 1 + g.IntN(2)
	case n < 10:
		return 1 + g.IntN(4)
	case n < 15:
		return 1 + g.IntN(g.perNode)
	}
	return 1 + g.IntN(g.cpus)
}

func (g *generator) memoryCount() int {
	switch n := g.IntN(16); {
	case n < 9:
		return 64 * (1 + g.IntN(4))
	case n < 15:
		return max(64, g.memoryMiB/(2+g.IntN(4)))
	}
	return max(64, g.memoryMiB*(1+g.IntN(3))/2)
}

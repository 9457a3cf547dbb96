// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/test/differential/scenario"
)

// TestKnownFaults plays reports of faults of the kubelet's own manager, to see
// that each is found and called by its name.
func TestKnownFaults(t *testing.T) {
	setGates(true)
	w := newWorker(t)
	whole := func(name string, cpus int, nodes ...uint64) scenario.Event {
		e := scenario.Event{Affinity: scenario.Anywhere, Admit: &scenario.Pod{Name: name, Containers: []scenario.Container{
			{Name: "c", Kind: scenario.App, MilliCPU: 1000 * cpus, MemoryMiB: 64},
		}}}
		if nodes != nil {
			e.Affinity, e.Masks = scenario.FromMasks, nodes
		}
		return e
	}
	restart := scenario.Event{Restart: true}
	budget := whole("pod", 2)
	budget.Admit.Budget = &scenario.Budget{MilliCPU: 3000, MemoryMiB: 128}
	budget.Admit.Containers = append(budget.Admit.Containers, scenario.Container{Name: "shares", Kind: scenario.App})
	// On two nodes with 12 CPUs each, of which node 0 has 10 to give out.
	spans := func(cpus int, containers ...scenario.Container) []scenario.Event {
		e := whole("pod", cpus, 1<<0|1<<1)
		e.Admit.Budget = &scenario.Budget{MilliCPU: 1000 * cpus, MemoryMiB: 512}
		e.Admit.Containers = nil
		for i, c := range containers {
			c.Name = fmt.Sprintf("c%d", i)
			if c.MilliCPU > 0 {
				c.MemoryMiB = 64
			}
			e.Admit.Containers = append(e.Admit.Containers, c)
		}
		return []scenario.Event{e}
	}
	slice := func(kind scenario.Kind, cpus int) scenario.Container {
		return scenario.Container{Kind: kind, MilliCPU: 1000 * cpus}
	}
	shares := scenario.Container{Kind: scenario.Sidecar}
	twoNodes := scenario.Settings{Reserved: []int{0, 12}, PodLevel: true, Policy: "restricted", Scope: "pod"}
	for _, test := range []struct {
		name     string
		machine  scenario.Machine
		settings scenario.Settings
		events   []scenario.Event
		faults   []fault
	}{
		{
			"140730", grid(2, 2, 3, 2),
			scenario.Settings{Reserved: []int{0, 3}, Options: []string{scenario.AcrossNUMA, scenario.FullPCPUs}, Policy: "best-effort", Scope: "container"},
			[]scenario.Event{whole("a", 2, 1<<2), whole("b", 4, 1<<3), whole("c", 14)},
			[]fault{neverReturns},
		},
		{
			"140989", grid(1, 1, 8, 1),
			scenario.Settings{Reserved: []int{0}, PodLevel: true, Policy: "restricted", Scope: "pod"},
			[]scenario.Event{budget, restart},
			[]fault{hintsAnew, allocatesAnew},
		},
		{
			"141196", grid(1, 1, 4, 1),
			scenario.Settings{Reserved: []int{0}, Options: []string{scenario.Strict}, Policy: "none", Scope: "container"},
			[]scenario.Event{whole("a", 3)},
			[]fault{emptiesPool},
		},
		{
			"136572", grid(2, 2, 8, 1),
			scenario.Settings{Reserved: []int{31}, Options: []string{scenario.BySocket}, Policy: "best-effort", Scope: "container"},
			[]scenario.Event{whole("a", 4, 1<<1)},
			[]fault{widensToSockets},
		},
		{
			"139430", grid(2, 2, 4, 1),
			scenario.Settings{Reserved: []int{0}, Options: []string{scenario.AcrossNUMA}, Policy: "best-effort", Scope: "container"},
			[]scenario.Event{whole("a", 3, 1<<1|1<<2|1<<3)},
			[]fault{shrinksMask},
		},
		{
			"slices in order", grid(2, 1, 6, 2), twoNodes,
			spans(22, slice(scenario.App, 8), slice(scenario.App, 9)),
			[]fault{slicesInOrder},
		},
		{
			"budget first", grid(2, 1, 6, 2), twoNodes,
			spans(20, slice(scenario.App, 10), slice(scenario.App, 10)),
			[]fault{budgetFirst},
		},
		{
			"split init", grid(2, 1, 6, 2), twoNodes,
			spans(22, slice(scenario.Init, 11), slice(scenario.App, 4)),
			[]fault{splitInit},
		},
		{
			"init over pool", grid(2, 1, 6, 2), twoNodes,
			spans(22, shares, slice(scenario.Init, 8), slice(scenario.App, 12)),
			[]fault{initOverPool},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.settings.Reserved {
				test.settings.ReservedCount = i + 1
			}
			s := &scenario.Scenario{Machine: test.machine, Settings: test.settings, Events: test.events}
			result, err := compare(playOurs(s, w.dir, false), w.child)
			require.NoError(t, err)
			var found []fault
			for _, d := range result.disagreements {
				faults, err := explain(d)
				require.NoError(t, err, "%s", d)
				found = append(found, faults&-faults)
			}
			for _, each := range test.faults {
				require.Contains(t, found, each, "%s: want %s, found %s", s, each, fmt.Sprint(found))
			}
		})
	}
}

// grid is a regular machine on which siblings are far apart.
func grid(sockets, nodes, cores, threads int) scenario.Machine {
	m := scenario.Machine{Shape: "regular"}
	all := sockets * nodes * cores
	for i := range all * threads {
		c := i % all
		m.CPUs = append(m.CPUs, scenario.CPU{ID: i, Core: c, Node: c / cores, Socket: c / cores / nodes, Cache: -1})
	}
	for id := range sockets * nodes {
		m.Nodes = append(m.Nodes, scenario.Node{ID: id, MemoryMiB: 1 << 14})
	}
	return m
}

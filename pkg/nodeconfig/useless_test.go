// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// written are machines on which options have no effect.
var written = map[string]string{
	"one":        `{nodes: [{id: 0, memory: 16Gi, distances: "10"}], cpus: [{cpus: "0-15", socket: 0, node: 0, cache: 0}]}`,
	"per-socket": `{nodes: [{id: 0, memory: 8Gi, distances: 10 20}, {id: 1, memory: 8Gi, distances: 20 10}], cpus: [{cpus: "0-15", threads: 2, socket: 0, node: 0, cache: 0}, {cpus: "16-31", threads: 2, socket: 1, node: 1, cache: 1}]}`,
	"half":       `{nodes: [{id: 0, memory: 8Gi, distances: 10 20}, {id: 1, memory: 8Gi, distances: 20 10}], cpus: [{cpus: "0-7", socket: 0, node: 0, cache: 0}, {cpus: "8-15", socket: 0, node: 1, cache: 0}]}`,
	"untold":     `{nodes: [{id: 0, memory: 8Gi, distances: 10 20}, {id: 1, memory: 8Gi, distances: 20 10}], cpus: [{cpus: "0-7", socket: 0, node: 0}, {cpus: "8-15", socket: 1, node: 1}]}`,
}

func allMachines(t testing.TB) map[string]machine.Machine {
	all := map[string]machine.Machine{}
	for name, text := range written {
		m, err := machine.Parse(name, []byte(strings.Replace(text, "{", "{name: "+name+", ", 1)))
		require.NoError(t, err)
		all[name] = m
	}
	for _, name := range catalog.Names() {
		m, err := catalog.Get(name)
		require.NoError(t, err)
		all[name] = m
	}
	return all
}

// TestUseless: what is said to have no effect has none. With the option and
// without it, the same CPUs are reserved and given out, whatever came before.
func TestUseless(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for name, m := range allMachines(t) {
		for _, policy := range topologyPolicies {
			for _, reserved := range []map[string]any{{"reservedSystemCPUs": fmt.Sprint(m.CPUs[0].ID)}, {"kubeReserved": map[string]string{"cpu": "3"}}} {
				for field, names := range map[string][]string{cpuOptions: cpuplan.OptionNames(), topologyOptions: placement.OptionNames()} {
					for _, option := range names {
						fields := map[string]any{
							"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
							"featureGates":     map[string]bool{CPUOptionsAlpha: true, TopologyOptionsAlpha: true},
							"cpuManagerPolicy": "static", "topologyManagerPolicy": policy,
						}
						for key, value := range reserved {
							fields[key] = value
						}
						value := "true"
						if option == placement.OptionTieBreak {
							value = "most-allocated"
						}
						without := read(t, fields)
						fields[field] = map[string]string{option: value}
						with := read(t, fields)
						found := with.Validate(m)
						if says(found, field+"."+option, "it gains nothing: ") {
							seen[option]++
							continue
						}
						if !says(found, field+"."+option, "it has no effect: ") {
							continue
						}
						seen[option]++
						a, err := without.For(m)
						require.NoError(t, err)
						b, err := with.For(m)
						require.NoError(t, err)
						t.Run(fmt.Sprint(name, policy, option), func(t *testing.T) {
							for range 3 {
								sameCPUs(t, r, a, b)
							}
							sameAffinity(t, r, a, b)
						})
					}
				}
			}
		}
	}
	for _, option := range append(cpuplan.OptionNames(), placement.OptionNames()...) {
		if option != cpuplan.OptionStrictReservation && option != placement.OptionMaxNodes {
			require.NotZero(t, seen[option], option)
		}
	}
}

func read(t *testing.T, fields map[string]any) *Config {
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	c, err := Read("kubelet.yaml", text)
	require.NoError(t, err)
	return c
}

func says(found []Finding, field, begin string) bool {
	for _, f := range found {
		if f.Field == field && strings.HasPrefix(f.Message, begin) {
			return true
		}
	}
	return false
}

// sameCPUs admits and removes random pods on two nodes.
func sameCPUs(t *testing.T, r *rand.Rand, a, b *Node) {
	require.Equal(t, a.CPUs.Reserved().String(), b.CPUs.Reserved().String())
	all := a.CPUTopology.All().Size()
	var state cpuplan.State
	for step := range 30 {
		if uids := state.PodUIDs(); len(uids) > 0 && r.IntN(3) == 0 {
			state = state.Without(uids[r.IntN(len(uids))])
			continue
		}
		count := 1 + r.IntN(max(1, all/(1+r.IntN(6))))
		pod := podplan.Pod{UID: fmt.Sprintf("p%d", step), Managed: true, Containers: []podplan.Container{{Name: "a", Guaranteed: true, FixedCPU: true, MilliCPU: int64(count) * 1000, LimitMilliCPU: int64(count) * 1000}}}
		container := pod.Containers[0]
		one, err1 := give(a, state, pod, container)
		two, err2 := give(b, state, pod, container)
		require.Equal(t, err1 == nil, err2 == nil, "%v, %v", err1, err2)
		if err1 == nil {
			require.True(t, one.Equals(two), "%d CPUs: %v, %v", count, one, two)
			state = state.With(pod.UID, one)
		}
	}
}

func give(n *Node, state cpuplan.State, pod podplan.Pod, container podplan.Container) (cpuplan.Record, error) {
	affinity := numa.Hint{Any: true}
	if hints, ok := n.CPUs.ContainerHints(state, pod, container); ok && n.Topology.Policy.Aligns() {
		d := n.Topology.Policy.Decide([]numa.Resource{hints}, nil)
		if !d.Admit {
			return cpuplan.Record{}, fmt.Errorf("refused")
		}
		affinity = d.Affinity
	}
	return n.CPUs.PlanContainer(state, pod, container, affinity)
}

// sameAffinity merges random hints under two policies.
func sameAffinity(t *testing.T, r *rand.Rand, a, b *Node) {
	ids := a.Topology.Policy.Nodes().List()
	for range 200 {
		if len(ids) == 0 { // policy none
			return
		}
		var resources []numa.Resource
		var usage []numa.NodeUsage
		for i := range 1 + r.IntN(3) {
			one := numa.Resource{Name: fmt.Sprint(i)}
			least := len(ids)
			for range 1 + r.IntN(5) {
				var nodes []int
				for _, id := range ids {
					if r.IntN(2) == 0 {
						nodes = append(nodes, id)
					}
				}
				if len(nodes) > 0 {
					one.Hints = append(one.Hints, numa.Hint{Nodes: numa.SetOf(nodes...)})
					least = min(least, len(nodes))
				}
			}
			for j := range one.Hints {
				one.Hints[j].Preferred = one.Hints[j].Nodes.Size() == least
			}
			resources = append(resources, one)
		}
		for _, id := range ids {
			usage = append(usage, numa.NodeUsage{Node: id, Resource: "cpu", Allocatable: 10, Free: uint64(r.IntN(11))})
		}
		used := func() *numa.Usage { return numa.NewUsage(usage) }
		require.Equal(t, a.Topology.Policy.Decide(resources, used), b.Topology.Policy.Decide(resources, used))
	}
}

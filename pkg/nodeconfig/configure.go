// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
)

// errorIn makes a finding of a manager's error.
func errorIn(field, fix string, err error) Finding { return Finding{Error, field, err.Error(), fix} }

// orElse is the findings, or if there are none, the error that nobody has found
// the field of.
func orElse(found []Finding, field string, err error) []Finding {
	if err != nil && len(found) == 0 {
		return []Finding{errorIn(field, "", err)}
	}
	return found
}

// configureTopology makes the topology manager's part of the node.
func (c *Config) configureTopology(n *Node, ids []int, rows [][]uint64) (found []Finding) {
	k := &c.Kubelet
	configuration := placement.Configuration{
		Policy: k.TopologyManagerPolicy, Scope: k.TopologyManagerScope, Options: k.TopologyManagerPolicyOptions,
		Alpha: c.Gates.On(TopologyOptionsAlpha),
	}
	var err error
	if n.Topology, err = placement.Configure(configuration, ids, rows); err == nil {
		return nil
	}
	if !c.topologyPolicyKnown() || !c.topologyScopeKnown() {
		return nil // it is told already, with what is allowed
	}
	const field = "topologyManagerPolicyOptions"
	for _, name := range slices.Sorted(maps.Keys(k.TopologyManagerPolicyOptions)) {
		one := map[string]string{name: k.TopologyManagerPolicyOptions[name]}
		if _, err := placement.ParseOptions(one, configuration.Alpha); err != nil {
			found = append(found, errorIn(field+"."+name, topologyOptionFix(name, configuration.Alpha), err))
		}
	}
	return orElse(found, field, err)
}

func topologyOptionFix(name string, alpha bool) string {
	if placement.CheckOption(name, true) != nil {
		return orRemove(nearest(name, slices.Values(placement.OptionNames())))
	}
	if placement.CheckOption(name, alpha) != nil {
		return fmt.Sprintf("featureGates.%s: true", TopologyOptionsAlpha)
	}
	return ""
}

func orRemove(fix string) string {
	if fix == "" {
		return "remove it"
	}
	return fix
}

// configureCPUs makes the CPU manager's part of the node.
func (c *Config) configureCPUs(n *Node, kept reserves) (found []Finding) {
	k := &c.Kubelet
	configuration := cpuplan.Configuration{
		Policy: k.CPUManagerPolicy, Options: k.CPUManagerPolicyOptions,
		Alpha: c.Gates.On(CPUOptionsAlpha), Beta: c.Gates.On(CPUOptionsBeta),
		ReconcilePeriod: k.CPUManagerReconcilePeriod.Duration,
		Reserved:        cpuplan.NewSet(kept.cpus.UnsortedList()...), Reservation: n.Reservation,
		SingleNUMANode: k.TopologyManagerPolicy == string(placement.SingleNUMANode),
	}
	var err error
	n.CPUs, err = cpuplan.Configure(configuration, func() (*cpuplan.Topology, error) { return n.CPUTopology, nil })
	return orElse(found, "cpuManagerPolicy", err)
}

// configureMemory makes the memory manager's part of the node.
func (c *Config) configureMemory(n *Node, kept reserves, ids []int, rows [][]uint64) (found []Finding) {
	configuration := memplan.Configuration{Policy: c.Kubelet.MemoryManagerPolicy, Reservation: n.Reservation}
	for _, r := range c.Kubelet.ReservedMemory {
		configuration.Reserved = append(configuration.Reserved, memplan.Reservation{Node: int(r.NumaNode), Limits: r.Limits})
	}
	machine, err := memplan.Configure(configuration, specsOf(n.Machine))
	if err != nil {
		return orElse(found, "memoryManagerPolicy", err)
	}
	if c.Kubelet.MemoryManagerPolicy != memplan.PolicyNone {
		machine = machine.WithDistances(distancesOf(ids, rows))
	}
	n.Memory = machine
	return nil
}

// checkCapacity fails for more that is kept than the machine has.
func checkCapacity(n *Node, kept reserves) (found []Finding) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		has, takes := n.Capacity[name], n.Reservation[name]
		if takes.Cmp(has) > 0 {
			found = append(found, Finding{Error, "systemReserved." + string(name), fmt.Sprintf("kubeReserved, systemReserved and evictionHard keep %s of %s, but the machine has %s", takes.String(), name, has.String()), "less than " + has.String()})
		}
	}
	return found
}

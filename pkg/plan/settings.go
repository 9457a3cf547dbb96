// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nodeconfig"
)

// SettingsOf is what a configuration on a machine comes to.
func SettingsOf(n *nodeconfig.Node) Settings {
	s := Settings{
		Machine: n.Machine, Topology: n.CPUTopology, CPUs: n.CPUs,
		Memory: n.Memory, StaticMemory: n.MemoryPolicy == memplan.PolicyStatic,
		Policy: n.Topology.Policy, Scope: n.Topology.Scope,
		PodLevelResources: n.Gates.On(nodeconfig.PodLevelResources), PodLevelManagers: n.Gates.On(nodeconfig.PodLevelResourceManagers),
		Allocatable: AmountsOf(n.Allocatable), CFSQuota: n.CFSQuota,
	}
	if n.Gates.On(nodeconfig.CFSQuotaPeriod) {
		s.QuotaPeriod = n.CFSQuotaPeriod
	}
	return s
}

// CheckRecords fails for records of CPUs or memory that the machine does not have.
func (s Settings) CheckRecords(cpus cpuplan.State, memory memplan.Records) error {
	for _, uid := range cpus.PodUIDs() {
		held := cpus.Record(uid).CPUs()
		if missing := held.Difference(s.Topology.All()); !missing.IsEmpty() {
			return fmt.Errorf("pod %s has the CPUs %s on record, of which this machine, with the CPUs %s, does not have %s", uid, held, s.Topology.All(), missing)
		}
	}
	if !s.StaticMemory {
		return nil
	}
	for uid, record := range memory.All() {
		if err := s.Memory.Check(uid, record); err != nil {
			return err
		}
	}
	return nil
}

// AmountsOf are the amounts of a list.
func AmountsOf(list v1.ResourceList) Amounts {
	a := Amounts{Scalars: map[string]int64{}}
	for name, q := range list {
		switch {
		case name == v1.ResourcePods:
			a.Pods = q.Value()
		case name == v1.ResourceCPU:
			a.MilliCPU = q.MilliValue()
		case name == v1.ResourceMemory:
			a.Memory = q.Value()
		case strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
			a.Scalars[string(name)] = q.Value()
		}
	}
	return a
}

// Assumed is the configuration of a plan for which none is given: the managers for
// pods with a budget at work, as far as they work on the machine, one core and 1Gi
// reserved, or less of a small one's memory. It is a KubeletConfiguration in YAML.
func Assumed(m machine.Machine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates: {%s: true, %s: true}\n", nodeconfig.PodLevelResources, nodeconfig.PodLevelResourceManagers)
	cpus, memory, topology := cpuplan.PolicyStatic, memplan.PolicyNone, string(placement.Restricted)
	eviction, reserved := 100, 1024 // Mi
	for eviction > 0 && m.Memory() < uint64(2*reserved)<<20 {
		eviction, reserved = eviction/2, reserved/2
	}
	reservation := ""
	for _, n := range m.Nodes {
		// Where no node has memory, as on a kernel without NUMA, none can be reserved.
		ordinary := n.Memory
		for _, h := range n.HugePages {
			ordinary -= h.Pages * h.PageSize
		}
		if eviction > 0 && ordinary >= uint64(2*reserved)<<20 {
			memory = memplan.PolicyStatic
			reservation = fmt.Sprintf("reservedMemory: [{numaNode: %d, limits: {memory: %dMi}}]\n", n.ID, reserved)
			break
		}
	}
	for _, n := range m.Nodes {
		if n.ID > machine.MaxManagedNode {
			memory, reservation, topology = memplan.PolicyNone, "", string(placement.None)
		}
	}
	if slices.ContainsFunc(m.CPUs, func(c machine.CPU) bool { return c.Node > machine.MaxManagedNode }) {
		cpus = cpuplan.PolicyNone
	}
	fmt.Fprintf(&b, "cpuManagerPolicy: %s\nmemoryManagerPolicy: %s\ntopologyManagerPolicy: %s\n", cpus, memory, topology)
	if topology != string(placement.None) {
		b.WriteString("topologyManagerScope: pod\n")
	}
	if len(m.CPUs) > 0 {
		var core []string
		for _, c := range m.CPUs {
			if c.CoreID() == m.CPUs[0].CoreID() {
				core = append(core, fmt.Sprint(c.ID))
			}
		}
		fmt.Fprintf(&b, "reservedSystemCPUs: %q\n", strings.Join(core, ","))
	}
	if eviction == 0 {
		b.WriteString("evictionHard: {}\n") // of next to no memory nothing can be kept
	} else {
		fmt.Fprintf(&b, "systemReserved: {memory: %dMi}\nevictionHard: {memory.available: %dMi}\n", reserved-eviction, eviction)
	}
	return b.String() + reservation
}

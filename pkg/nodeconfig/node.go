// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/topology"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
)

// Node is what the managers of a kubelet go by: a configuration on a machine.
type Node struct {
	Machine machine.Machine
	Gates   Gates

	// CPUPolicy is "none" or "static". CPUs has the reserved CPUs and the options,
	// and is nil under none.
	CPUPolicy   string
	CPUs        *cpuplan.Node
	CPUTopology *cpuplan.Topology
	// MemoryPolicy is "None" or "Static". Memory is the zero value under None.
	MemoryPolicy string
	Memory       memplan.Machine
	// Topology has the policy and the scope of the topology manager, and its
	// options.
	Topology placement.Configured

	// Capacity is what the machine has of CPU, memory and hugepages. Reservation
	// is what kubeReserved, systemReserved and evictionHard keep of that, and
	// Allocatable the rest, which the kubelet checks pods against when it admits
	// them.
	Capacity, Reservation, Allocatable v1.ResourceList
	// MaxPods is how many pods the kubelet takes.
	MaxPods int

	// CFSQuota is whether the kubelet sets CFS quotas, over CFSQuotaPeriod.
	CFSQuota       bool
	CFSQuotaPeriod time.Duration
}

// StartError says why a kubelet would not start: Findings are all errors.
type StartError struct {
	File, Machine string
	Findings      []Finding
}

func (e *StartError) Error() string {
	texts := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		texts[i] = f.String()
	}
	return fmt.Sprintf("%s: a kubelet with this configuration does not start on %s: %s", e.File, OnMachine(e.Machine), strings.Join(texts, "; "))
}

// For is the configuration on a machine. The error is a *StartError.
func (c *Config) For(m machine.Machine) (*Node, error) {
	n, found := c.on(m)
	if len(found) > 0 {
		return nil, &StartError{c.File, m.Name, found}
	}
	return n, nil
}

// on makes the node and lists everything that keeps the kubelet from starting.
func (c *Config) on(m machine.Machine) (*Node, Findings) {
	k := &c.Kubelet
	found := append(c.gatesFound[:len(c.gatesFound):len(c.gatesFound)], c.checkKubelet()...)
	info := m.MachineInfo()
	capacity := capacityOf(info)
	kept, more := c.reserves(m, capacity)
	found = append(found, more...)
	n := &Node{
		Machine: m, Gates: c.Gates,
		CPUPolicy: k.CPUManagerPolicy, MemoryPolicy: k.MemoryManagerPolicy,
		Capacity: capacity, Reservation: kept.total(capacity),
		MaxPods:  int(k.MaxPods),
		CFSQuota: *k.CPUCFSQuota, CFSQuotaPeriod: k.CPUCFSQuotaPeriod.Duration,
	}
	n.Allocatable = allocatableOf(capacity, n.Reservation)
	if perCore := int(k.PodsPerCore); perCore > 0 {
		n.MaxPods = min(n.MaxPods, perCore*len(m.CPUs))
	}
	n.Allocatable[v1.ResourcePods] = *resource.NewQuantity(int64(n.MaxPods), resource.DecimalSI)

	read, err := topology.Discover(klog.Logger{}, info)
	if err != nil {
		found.refuse("", "", "the managers cannot read the machine: %v", err)
		return n, found
	}
	found = append(found, c.configureTopology(n)...)
	if n.CPUTopology, err = c.cpus(read); err != nil {
		found.refuse("cpuManagerPolicy", cpuplan.PolicyNone, "the CPU manager cannot read the machine: %v", err)
	} else {
		found = append(found, c.configureCPUs(n, kept)...)
	}
	found = append(found, c.configureMemory(n, kept)...)
	found = append(found, c.checkCapacity(n, kept)...)
	return n, found
}

// cpus is the machine's CPUs. Under policy none the CPU manager does not look at
// where they are, so that nothing there is wrong.
func (c *Config) cpus(read *topology.CPUTopology) (*cpuplan.Topology, error) {
	plan, err := read.Plan()
	if err == nil || c.Kubelet.CPUManagerPolicy != cpuplan.PolicyNone {
		return plan, err
	}
	anywhere := topology.CPUDetails{}
	for id := range read.CPUDetails {
		anywhere[id] = topology.CPUInfo{CoreID: id}
	}
	return (&topology.CPUTopology{CPUDetails: anywhere}).Plan()
}

// checkCapacity fails for more that is kept than the machine has.
func (c *Config) checkCapacity(n *Node, kept reserves) (found Findings) {
	fields := map[v1.ResourceName]string{v1.ResourceCPU: c.reservedField(), v1.ResourceMemory: "systemReserved.memory"}
	if c.Kubelet.SystemReserved["memory"] == "" && c.Kubelet.KubeReserved["memory"] != "" {
		fields[v1.ResourceMemory] = "kubeReserved.memory"
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		has, takes := n.Capacity[name], n.Reservation[name]
		if takes.Cmp(has) > 0 {
			found.refuse(fields[name], "", "%s of %s is kept from pods, %s, but the machine has %s", takes.String(), name, kept.sum(name), has.String())
		}
	}
	return found
}

// nodesOf is the IDs of the machine's NUMA nodes and their distances.
func nodesOf(m machine.Machine) (ids []int, rows [][]uint64) {
	for _, n := range m.Nodes {
		ids, rows = append(ids, n.ID), append(rows, n.Distances)
	}
	return ids, rows
}

// specsOf is the memory of the machine's NUMA nodes.
func specsOf(m machine.Machine) []memplan.NodeSpec {
	withCPUs := map[int]bool{}
	for _, c := range m.CPUs {
		withCPUs[c.Node] = true
	}
	specs := make([]memplan.NodeSpec, 0, len(m.Nodes))
	for _, n := range m.Nodes {
		spec := memplan.NodeSpec{ID: n.ID, Memory: n.Memory, HugePages: map[string]uint64{}, NoCPUs: !withCPUs[n.ID]}
		for _, h := range n.HugePages {
			spec.HugePages[string(hugePages(h.PageSize))] = h.PageSize * h.Pages
		}
		specs = append(specs, spec)
	}
	return specs
}

// distancesOf is nil when they are not told for every node.
func distancesOf(ids []int, rows [][]uint64) *numa.Distances {
	d, err := numa.NewDistances(ids, rows)
	if err != nil {
		return nil
	}
	return d
}

// OnMachine names a machine in a sentence.
func OnMachine(name string) string {
	switch name {
	case "this machine":
		return name
	case "":
		return "a machine without a name"
	}
	return "machine " + name
}

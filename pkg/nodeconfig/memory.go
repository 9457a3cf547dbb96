// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nearest"
)

var memoryPolicies = []string{memplan.PolicyNone, memplan.PolicyStatic}

// configureMemory makes the memory manager's part of the node.
func (c *Config) configureMemory(n *Node, kept reserves) (found Findings) {
	k := &c.Kubelet
	configuration := memplan.Configuration{Policy: k.MemoryManagerPolicy, Reservation: n.Reservation}
	for _, r := range k.ReservedMemory {
		configuration.Reserved = append(configuration.Reserved, memplan.Reservation{Node: int(r.NumaNode), Limits: r.Limits})
	}
	specs := specsOf(n.Machine)
	memory, err := memplan.Configure(configuration, specs)
	if err == nil {
		if k.MemoryManagerPolicy == memplan.PolicyStatic {
			n.Memory = memory.WithDistances(distancesOf(nodesOf(n.Machine)))
		}
		return nil
	}
	if !slices.Contains(memoryPolicies, k.MemoryManagerPolicy) {
		found.refuse("memoryManagerPolicy", nearest.Name(k.MemoryManagerPolicy, slices.Values(memoryPolicies)), "it is %q, but must be one of %q: %v", k.MemoryManagerPolicy, memoryPolicies, err)
		return found
	}
	if outside(n.Machine) != nil {
		found.refuse("memoryManagerPolicy", memplan.PolicyNone, "the memory manager cannot read the machine: %v", err)
		return found
	}
	right := suggest(configuration, specs)
	fix := ""
	if right != "" {
		fix = "reservedMemory: " + right
	}
	wanted := n.Reservation[v1.ResourceMemory]
	if wanted.IsZero() && !kept.unknown[v1.ResourceMemory] {
		found.refuse("systemReserved.memory", "an amount, and reservedMemory with the same",
			"memoryManagerPolicy Static keeps memory for the system, but kubeReserved.memory, systemReserved.memory and evictionHard[%s] come to 0", memoryAvailable)
	}
	exist := map[int]memplan.NodeSpec{}
	for _, s := range specs {
		exist[s.ID] = s
	}
	given := map[v1.ResourceName]resource.Quantity{}
	for i, r := range k.ReservedMemory {
		spec, ok := exist[int(r.NumaNode)]
		if !ok {
			found.refuse(fmt.Sprintf("reservedMemory[%d].numaNode", i), fix, "it is %d, but the machine has the NUMA nodes %v", r.NumaNode, slices.Sorted(maps.Keys(exist)))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
			quantity := r.Limits[name]
			sum := given[name]
			sum.Add(quantity)
			given[name] = sum
			if bytes, whole := quantity.AsInt64(); !whole || bytes < 0 {
				found.refuse(limitField(i, name), fix, "%s is not a whole number of bytes, or negative", quantity.String())
			} else if name == v1.ResourceMemory {
				if has := spec.Memory - pages(spec); ok && uint64(bytes) > has {
					found.refuse(limitField(i, name), fix, "it is %s, but NUMA node %d has %s that are not hugepages", quantity.String(), spec.ID, numa.Bytes(has))
				}
			} else if memplan.IsMemory(name) {
				found.refuse(limitField(i, name), "remove it", "%s of %s are reserved, but nothing of it is kept from pods: kubeReserved and systemReserved have no hugepages%s",
					quantity.String(), name, lacking(spec, name))
			}
		}
	}
	if kept.unknown[v1.ResourceMemory] {
		return found // it is told elsewhere
	}
	if have := given[v1.ResourceMemory]; have.Cmp(wanted) != 0 {
		field, value := c.memoryField(wanted, right)
		found.refuse(field, value, "reservedMemory has %s of memory, but what is kept from pods is %s: %s", have.String(), wanted.String(), kept.sum(v1.ResourceMemory))
	}
	found.orElse("reservedMemory", err)
	return found
}

// MemoryOf is the machine's memory with what reservedMemory keeps of it, under any
// policy and whether or not it adds up. It fails for what cannot be kept there.
func (c *Config) MemoryOf(m machine.Machine) (memplan.Machine, error) {
	specs := specsOf(m)
	for _, r := range c.Kubelet.ReservedMemory {
		i := slices.IndexFunc(specs, func(s memplan.NodeSpec) bool { return s.ID == int(r.NumaNode) })
		if i < 0 {
			return memplan.Machine{}, fmt.Errorf("reservedMemory: the machine has no NUMA node %d", r.NumaNode)
		}
		if specs[i].Reserved == nil {
			specs[i].Reserved = map[string]uint64{}
		}
		for name, quantity := range r.Limits {
			bytes, whole := quantity.AsInt64()
			if !whole || bytes < 0 {
				return memplan.Machine{}, fmt.Errorf("reservedMemory: NUMA node %d: %s of %s is not a whole number of bytes, or negative", r.NumaNode, quantity.String(), name)
			}
			specs[i].Reserved[string(name)] = uint64(bytes)
		}
	}
	return memplan.NewMachine(specs)
}

// lacking says so if the machine has no pages of that kind on the node.
func lacking(spec memplan.NodeSpec, name v1.ResourceName) string {
	if spec.HugePages[string(name)] > 0 {
		return ""
	}
	return fmt.Sprintf("; and NUMA node %d has none", spec.ID)
}

// pages is the memory that is hugepages.
func pages(s memplan.NodeSpec) (sum uint64) {
	for _, bytes := range s.HugePages {
		sum += bytes
	}
	return sum
}

// memoryField is the field to put right, and its value: the only reservation of
// memory, or all of them.
func (c *Config) memoryField(wanted resource.Quantity, all string) (field, fix string) {
	if r := c.Kubelet.ReservedMemory; len(r) == 1 && all != "" && !wanted.IsZero() {
		if _, ok := r[0].Limits[v1.ResourceMemory]; ok && all == list(entry(int(r[0].NumaNode), wanted)) {
			return limitField(0, v1.ResourceMemory), wanted.String()
		}
	}
	return "reservedMemory", all
}

// suggest is the value of reservedMemory that would be right, as near to what it
// is as possible; "" if there is none.
func suggest(c memplan.Configuration, nodes []memplan.NodeSpec) string {
	wanted := c.Reservation[v1.ResourceMemory]
	left, whole := wanted.AsInt64()
	if !whole || left <= 0 {
		return ""
	}
	room, has := map[int]int64{}, map[int]int64{}
	for _, n := range nodes {
		room[n.ID] = int64(n.Memory - pages(n))
	}
	for _, r := range c.Reserved {
		bytes := r.Limits[v1.ResourceMemory]
		take := min(left, max(0, bytes.Value()), room[r.Node]-has[r.Node])
		has[r.Node] += take
		left -= take
	}
	// What is missing goes where something is already, and then to nodes with CPUs.
	order := slices.Clone(nodes)
	rank := func(n memplan.NodeSpec) int {
		switch {
		case has[n.ID] > 0:
			return 0
		case !n.NoCPUs:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b memplan.NodeSpec) int { return rank(a) - rank(b) })
	for _, n := range order {
		take := min(left, room[n.ID]-has[n.ID])
		has[n.ID] += take
		left -= take
	}
	right := memplan.Configuration{Policy: c.Policy, Reservation: c.Reservation}
	var entries []string
	for _, id := range slices.Sorted(maps.Keys(has)) {
		if has[id] > 0 {
			q := *resource.NewQuantity(has[id], wanted.Format)
			if has[id] != wanted.Value() {
				q.Format = resource.BinarySI
			}
			right.Reserved = append(right.Reserved, memplan.Reservation{Node: id, Limits: v1.ResourceList{v1.ResourceMemory: q}})
			entries = append(entries, entry(id, q))
		}
	}
	if _, err := memplan.Configure(right, nodes); err != nil {
		return ""
	}
	return list(entries...)
}

// list is entries as they stand in a configuration.
func list(entries ...string) string { return "[" + strings.Join(entries, ", ") + "]" }

// entry is one reservation as it stands in a configuration.
func entry(node int, memory resource.Quantity) string {
	return fmt.Sprintf("{numaNode: %d, limits: {memory: %s}}", node, memory.String())
}

// adviseMemory finds what the memory manager would not do.
func (c *Config) adviseMemory(n *Node) (found Findings) {
	if k := &c.Kubelet; k.MemoryManagerPolicy == memplan.PolicyNone && len(k.ReservedMemory) > 0 {
		found.warn("reservedMemory", "memoryManagerPolicy: Static, or no reservedMemory", "memoryManagerPolicy is None, which does not look at it")
	}
	if n.CPUs == nil || n.Topology.Policy.Strictness() != placement.SingleNUMANode {
		return found
	}
	// What asks for memory there is refused, or goes to another node.
	for id := range n.Memory.Nodes().All() {
		capacity, _ := n.Memory.Capacity(id, memplan.Ordinary)
		cpus := n.CPUTopology.OnNodes(numa.SetOf(id)).Intersection(n.CPUs.Allocatable())
		if capacity.Allocatable == 0 && capacity.Reserved > 0 && !cpus.IsEmpty() {
			found.note("reservedMemory", "all memory of NUMA node %d is reserved: under %s no pod that asks for memory gets its CPUs %s", id, placement.SingleNUMANode, cpus)
		}
	}
	return found
}

// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Report says what the pod, or one container of it, asks for and what each NUMA
// node has; it is empty for what asks for no exclusive CPUs.
func (n *Node) Report(s State, pod podplan.Pod, container *podplan.Container) numa.Report {
	request := pod.PodCPUs()
	if container != nil {
		request = pod.ExclusiveCPUs(*container)
	}
	if request == 0 {
		return numa.Report{}
	}
	if container == nil && pod.Budget != nil && s.Record(pod.UID).IsEmpty() {
		if _, err := pod.Carve(pod.CPUDemand()); err != nil {
			return numa.Report{Cause: err.Error()}
		}
	}
	d := numa.Demand{Resource: ResourceName, Unit: "CPUs", Asked: uint64(request)}
	var rules []string
	if n.options.FullPCPUsOnly {
		rules = append(rules, "only whole cores count")
	}
	if n.options.StrictCPUReservation {
		rules = append(rules, "one CPU must stay in the node shared pool")
	}
	d.Rule = strings.Join(rules, "; ")
	free, reserved := n.perNode(n.offer(n.Free(s))), n.perNode(n.reserved)
	for i, allocatable := range n.perNode(n.offer(n.Allocatable())) {
		d.Nodes = append(d.Nodes, numa.Supply{
			Node: allocatable.node, Free: uint64(free[i].count),
			Allocatable: uint64(allocatable.count), Reserved: uint64(reserved[i].count),
		})
	}
	return numa.Report{Demands: []numa.Demand{d}}
}

// Usage says what of each NUMA node's CPUs can be given out, and what is free.
func (n *Node) Usage(s State) []numa.NodeUsage {
	var usage []numa.NodeUsage
	free := n.perNode(n.Free(s))
	for i, allocatable := range n.perNode(n.Allocatable()) {
		usage = append(usage, numa.NodeUsage{
			Node: allocatable.node, Resource: ResourceName,
			Allocatable: uint64(allocatable.count), Free: uint64(free[i].count),
		})
	}
	return usage
}

// ContainerNodes is the NUMA nodes of the CPUs that the container has for itself or
// shares with others of its pod; false for one that has none.
func (n *Node) ContainerNodes(s State, podUID, container string) (numa.Set, bool) {
	cpus := s.Record(podUID).Containers[container]
	return n.nodesOf(cpus), !cpus.IsEmpty()
}

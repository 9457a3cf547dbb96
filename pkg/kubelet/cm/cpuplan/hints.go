// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// ResourceName is the resource that the hints are about.
const ResourceName = "cpu"

// ContainerHints says where the container's exclusive CPUs could come from. It
// answers false for a container that asks for none, and for one that cannot have
// whole cores although there are CPUs enough: no other nodes would help it, and
// planning it says what is wrong.
func (n *Node) ContainerHints(s State, pod podplan.Pod, container podplan.Container) (numa.Resource, bool) {
	request := pod.ExclusiveCPUs(container)
	if request == 0 {
		return numa.Resource{}, false
	}
	record := s.Record(pod.UID)
	if held, ok := record.Containers[container.Name]; ok {
		return n.recordedHint(held), true
	}
	if !record.Pod.IsEmpty() {
		return n.recordedHint(record.Pod), true
	}
	return n.freshHints(s, n.reusable(pod, record, container), request, peakCPUs(pod, container))
}

// PodHints says where the exclusive CPUs of the whole pod could come from. It
// answers false as ContainerHints does.
func (n *Node) PodHints(s State, pod podplan.Pod) (numa.Resource, bool) {
	request := pod.PodCPUs()
	if request == 0 {
		return numa.Resource{}, false
	}
	record := s.Record(pod.UID)
	if n.holdsAll(pod, record) || !record.Pod.IsEmpty() {
		return n.recordedHint(record.CPUs()), true
	}
	if pod.Budget != nil {
		if _, err := pod.Carve(pod.CPUDemand()); err != nil {
			return numa.Resource{Name: ResourceName}, true
		}
	}
	return n.freshHints(s, record.CPUs(), request, request)
}

// freshHints are the hints of what is to be allocated.
func (n *Node) freshHints(s State, mine Set, request, peak int) (numa.Resource, bool) {
	free := n.Free(s)
	if n.options.FullPCPUsOnly && free.Union(mine).Size() >= request && n.checkWholeCores("", n.offer(free).Union(mine), request) != nil {
		return numa.Resource{}, false
	}
	if n.emptiesShared(s, request-mine.Size()) {
		return numa.Resource{Name: ResourceName}, true
	}
	return numa.Resource{Name: ResourceName, Hints: n.hints(free, mine, request, peak)}, true
}

// emptiesShared reports whether that many CPUs more, given out to a pod, leave
// nothing in the node shared pool.
func (n *Node) emptiesShared(s State, more int) bool {
	return more >= n.unreservedShared(s).Size()
}

// recordedHint is the one hint of CPUs that are held already: where they are.
// It is preferred however many nodes it has, since a better place than the one
// in which a container runs is of no use to it.
func (n *Node) recordedHint(held Set) numa.Resource {
	return numa.Resource{Name: ResourceName, Hints: []numa.Hint{{Nodes: n.nodesOf(held), Preferred: true}}}
}

// describe says how many of the given free CPUs each NUMA node has, out of how
// many: "NUMA node 0: 3 free of 12, 2 reserved; NUMA node 1: 5 free of 12".
func (n *Node) describe(free Set) string {
	all, reserved := n.perNode(n.topology.All()), n.perNode(n.reserved)
	parts := make([]string, len(all))
	for i, c := range n.perNode(free) {
		parts[i] = fmt.Sprintf("NUMA node %d: %d free of %d", c.node, c.count, all[i].count)
		if reserved[i].count > 0 {
			parts[i] += fmt.Sprintf(", %d reserved", reserved[i].count)
		}
	}
	return strings.Join(parts, "; ")
}

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
// answers false for a container that asks for none.
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
	return numa.Resource{Name: ResourceName, Hints: n.hints(n.Free(s), n.reusable(pod, record, container.Name), request, peakCPUs(pod, container))}, true
}

// PodHints says where the exclusive CPUs of the whole pod could come from. It
// answers false for a pod that asks for none.
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
	return numa.Resource{Name: ResourceName, Hints: n.hints(n.Free(s), record.CPUs(), request, request)}, true
}

// recordedHint is the one hint of CPUs that are held already: where they are.
// It is preferred however many nodes it has, since a better place than the one
// in which a container runs is of no use to it.
func (n *Node) recordedHint(held Set) numa.Resource {
	return numa.Resource{Name: ResourceName, Hints: []numa.Hint{{Nodes: n.nodesOf(held), Preferred: true}}}
}

// Explain says how many CPUs the pod, or one container of it, asks for and what
// each NUMA node has. It is empty for what asks for none.
func (n *Node) Explain(s State, pod podplan.Pod, container *podplan.Container) string {
	request, who := pod.PodCPUs(), "the pod"
	if container != nil {
		request, who = pod.ExclusiveCPUs(*container), fmt.Sprintf("container %q", container.Name)
	}
	if request == 0 {
		return ""
	}
	if container == nil && pod.Budget != nil && s.Record(pod.UID).IsEmpty() {
		if _, err := pod.Carve(pod.CPUDemand()); err != nil {
			return err.Error()
		}
	}
	what := "CPUs"
	if n.options.FullPCPUsOnly {
		what = "CPUs on whole cores"
	}
	return fmt.Sprintf("cpu: %s asks for %d %s; %s", who, request, what, n.describe(n.offer(n.Free(s))))
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

// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// ResourceName is the resource that the hints are about.
const ResourceName = "cpu"

// mostHints bounds a list of hints. Lists are complete on machines with up to
// 16 NUMA nodes that have CPUs; beyond, masks come by growing size until the
// bound, and then the mask of all nodes. Narrow masks, among them all that are
// preferred, are the first to be listed.
const mostHints = 1 << 16

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
	return numa.Resource{Name: ResourceName, Hints: n.hints(n.Free(s), n.reusable(pod, record, container.Name), request)}, true
}

// PodHints says where the exclusive CPUs of the whole pod could come from. It
// answers false for a pod that asks for none.
func (n *Node) PodHints(s State, pod podplan.Pod) (numa.Resource, bool) {
	request := pod.PodCPUs()
	if request == 0 {
		return numa.Resource{}, false
	}
	record := s.Record(pod.UID)
	if n.holdsAll(pod, record) {
		return n.recordedHint(record.CPUs()), true
	}
	if pod.Budget != nil {
		if _, err := pod.Carve(pod.CPUDemand()); err != nil {
			return numa.Resource{Name: ResourceName}, true
		}
	}
	return numa.Resource{Name: ResourceName, Hints: n.hints(n.Free(s), record.CPUs(), request)}, true
}

// recordedHint is the one hint of CPUs that are held already: where they are.
// It is preferred however many nodes it has, since a better place than the one
// in which a container runs is of no use to it.
func (n *Node) recordedHint(held Set) numa.Resource {
	return numa.Resource{Name: ResourceName, Hints: []numa.Hint{{Nodes: n.nodesOf(held), Preferred: true}}}
}

// hints lists the sets of NUMA nodes that can give request CPUs out of free and
// mine, where mine, which the pod holds already, lies wholly in the set.
// Preferred are those as narrow as the narrowest set that could on an idle
// node.
func (n *Node) hints(free, mine Set, request int) []numa.Hint {
	offered := n.offer(free).Union(mine)
	narrowest := n.narrowest(request)
	must := n.nodesOf(mine)
	candidates := n.topology.Nodes()
	if candidates.Size() > 16 {
		// Nodes that have nothing to give only repeat narrower masks.
		candidates = n.nodesOf(offered)
	}
	available := [numa.MaxNodes]int{}
	for _, c := range n.perNode(offered) {
		available[c.node] = c.count
	}
	var list []numa.Hint
	add := func(mask numa.Set) {
		sum := 0
		for id := range mask.All() {
			sum += available[id]
		}
		if sum >= request && must.IsSubsetOf(mask) {
			list = append(list, numa.Hint{Nodes: mask, Preferred: mask.Size() == narrowest})
		}
	}
	tried := 0
	for mask := range candidates.Subsets() {
		if tried++; tried > mostHints {
			add(candidates)
			break
		}
		add(mask)
	}
	return list
}

// narrowest is how many nodes the request needs on an idle node. Reserved CPUs
// do not count, since no pod ever gets them.
func (n *Node) narrowest(request int) int {
	counts := n.perNode(n.offer(n.Allocatable()))
	slices.SortFunc(counts, func(a, b nodeCount) int { return b.count - a.count })
	sum := 0
	for i, c := range counts {
		if sum += c.count; sum >= request {
			return i + 1
		}
	}
	return len(counts)
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
	what := "exclusive CPUs"
	if n.options.FullPCPUsOnly {
		what = "exclusive CPUs on whole cores"
	}
	return fmt.Sprintf("cpu: %s asks for %d %s, free: %s", who, request, what, n.describe(n.offer(n.Free(s))))
}

// describe counts the CPUs of a set on each NUMA node, with what the node has
// at most: "NUMA node 0 has 3 of 10, NUMA node 1 has 5 of 10".
func (n *Node) describe(cpus Set) string {
	most := n.perNode(n.Allocatable())
	parts := make([]string, len(most))
	for i, c := range n.perNode(cpus) {
		parts[i] = fmt.Sprintf("NUMA node %d has %d of %d", c.node, c.count, most[i].count)
	}
	return strings.Join(parts, ", ")
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"fmt"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// ContainerHints says where the container's own memory could come from: one
// entry for each resource, all with the same hints; no hints at all when there
// is no room. A container that gets nothing exclusive has no entries.
func (h Host) ContainerHints(pod podplan.Pod, name string) []numa.Resource {
	c, ok := pod.Container(name)
	if !ok {
		return nil
	}
	request := pod.ExclusiveMemory(c)
	if len(request) == 0 {
		return nil
	}
	record := h.records.Pod(pod.UID)
	if record.Whole() {
		return spread(request, recorded(record.Nodes()))
	}
	if blocks, ok := record.Containers[name]; ok || hasEnded(pod, record, c) {
		return spread(request, recorded(nodesOf(blocks)))
	}
	return spread(request, h.query(request, reuseFor(pod, record, name)).hints())
}

// PodHints says where the memory of the pod as a whole could come from.
func (h Host) PodHints(pod podplan.Pod) []numa.Resource {
	request := pod.PodMemory()
	if len(request) == 0 {
		return nil
	}
	if record := h.records.Pod(pod.UID); !record.IsEmpty() {
		return spread(request, recorded(record.Nodes()))
	}
	if pod.Budget != nil {
		if _, err := carve(pod, nil); err != nil {
			return spread(request, nil)
		}
	}
	return spread(request, h.query(request, nil).hints())
}

// recorded is the hint that keeps what is recorded where it is. Nothing is
// left to decide for what was recorded and given back.
func recorded(nodes numa.Set) []numa.Hint {
	return []numa.Hint{{Nodes: nodes, Any: nodes.IsEmpty(), Preferred: true}}
}

// spread gives every resource of the request the same hints; the memory of a
// container is never split by resource.
func spread(request podplan.Memory, hints []numa.Hint) []numa.Resource {
	resources := make([]numa.Resource, 0, len(request))
	for _, name := range sortedNames(request) {
		r := numa.Resource{Name: name, Hints: hints}
		if len(hints) == 1 && hints[0].Any {
			r = numa.Resource{Name: name, NoPreference: true}
		}
		resources = append(resources, r)
	}
	return resources
}

func nodesOf(blocks []Block) numa.Set {
	var set numa.Set
	for _, b := range blocks {
		set = set.Union(b.Nodes)
	}
	return set
}

// choose decides on which nodes the request is allocated, given the affinity
// that the topology manager decided on.
func (h Host) choose(request podplan.Memory, reuse reusable, affinity numa.Hint) (numa.Set, error) {
	q := h.query(request, reuse)
	nodes, preferred := affinity.Nodes, affinity.Preferred
	var hints []numa.Hint
	if affinity.Any {
		hints = q.hints()
		hint, ok := best(hints)
		if !ok {
			return numa.Set{}, h.refuse(ErrNoRoom, request, affinity)
		}
		if affinity.Preferred && !hint.Preferred {
			return numa.Set{}, h.refuse(ErrNoPreferred, request, affinity)
		}
		nodes, preferred = hint.Nodes, hint.Preferred
	}
	// The affinity can name nodes that cannot give anything, because another
	// provider's resource lies there; the kernel would refuse to bind memory
	// to a node without any.
	if !h.isGroup(nodes) {
		nodes = nodes.Intersection(q.capable)
	}
	if nodes.IsEmpty() || !q.holds(nodes) || h.insideGroup(nodes) {
		if hints == nil {
			hints = q.hints()
		}
		var wider []numa.Hint
		for _, hint := range hints {
			if nodes.IsSubsetOf(hint.Nodes) {
				wider = append(wider, hint)
			}
		}
		hint, ok := best(wider)
		if !ok {
			return numa.Set{}, h.refuse(ErrNoExtension, request, affinity)
		}
		if preferred && !hint.Preferred {
			return numa.Set{}, h.refuse(ErrNoPreferredExtension, request, affinity)
		}
		nodes = hint.Nodes
	}
	if h.breaksGroups(nodes) {
		return numa.Set{}, h.refuse(ErrGroup, request, affinity)
	}
	return nodes, nil
}

// isGroup reports whether the nodes are exactly a group in use.
func (h Host) isGroup(nodes numa.Set) bool {
	for id := range nodes.All() {
		u, ok := h.usage[id]
		return ok && u.group == nodes
	}
	return false
}

// insideGroup reports whether the nodes are a part of a wider group. Taking
// memory from the part alone would leave the group with memory that it counts
// on and does not have, and what the part has free is a convention only; so
// such a request is extended to the group.
func (h Host) insideGroup(nodes numa.Set) bool {
	for id := range nodes.All() {
		u, ok := h.usage[id]
		return ok && u.group != nodes && nodes.IsSubsetOf(u.group)
	}
	return false
}

// Explain says in a few words why the hints are as they are: what the
// container, or the pod when the name is empty, asks for and what each node
// has. It is empty when nothing is asked for or everything is recorded.
func (h Host) Explain(pod podplan.Pod, name string) string {
	request := pod.PodMemory()
	record := h.records.Pod(pod.UID)
	settled := !record.IsEmpty()
	if name != "" {
		c, _ := pod.Container(name)
		request = pod.ExclusiveMemory(c)
		_, settled = record.Containers[name]
		settled = settled || record.Whole()
	}
	if len(request) == 0 || settled {
		return ""
	}
	if name == "" && pod.Budget != nil {
		if _, err := carve(pod, nil); err != nil {
			return err.Error()
		}
	}
	return fmt.Sprintf("%s requested; %s", amounts(request), h.Describe(request))
}

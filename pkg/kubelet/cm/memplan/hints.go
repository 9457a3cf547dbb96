// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"maps"
	"slices"

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
	t := tenant{pod.UID, earlierInits(pod, name)}
	hints := h.query(request, t).hints()
	if peak := peakOf(pod, c); !maps.Equal(peak, request) {
		hints = h.withRoomFor(hints, peak, t)
	}
	return spread(request, hints)
}

// withRoomFor leaves out the hints whose nodes cannot be part of where the peak
// fits, if a preferred hint remains.
func (h Host) withRoomFor(hints []numa.Hint, peak podplan.Memory, t tenant) []numa.Hint {
	wide := h.query(peak, t).hints()
	var roomy []numa.Hint
	preferred := false
	for _, hint := range hints {
		if slices.ContainsFunc(wide, func(w numa.Hint) bool { return hint.Nodes.IsSubsetOf(w.Nodes) }) {
			roomy = append(roomy, hint)
			preferred = preferred || hint.Preferred
		}
	}
	if !preferred {
		return hints
	}
	return roomy
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
	return spread(request, h.query(request, tenant{}).hints())
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
func (h Host) choose(request podplan.Memory, t tenant, affinity numa.Hint) (numa.Set, error) {
	q := h.query(request, t)
	nodes, preferred := affinity.Nodes, affinity.Preferred
	if affinity.Any {
		hint, ok := h.machine.best(q.hints())
		if !ok {
			return numa.Set{}, h.refuse(ErrNoRoom, request, affinity, true)
		}
		if affinity.Preferred && !hint.Preferred {
			return numa.Set{}, h.refuse(ErrNoPreferred, request, affinity, false)
		}
		return hint.Nodes, nil
	}
	// The affinity can name nodes that cannot give anything, because another
	// provider's resource lies there; the kernel would refuse to bind memory
	// to a node without any. And it can name nodes without CPUs where nobody
	// asked for these.
	nodes = nodes.Intersection(q.capable)
	if local := nodes.Intersection(q.local()); !local.IsEmpty() && q.fits(local) {
		return local, nil
	}
	if !nodes.IsEmpty() && q.fits(nodes) {
		return nodes, nil
	}
	hints := q.hints()
	hint, ok := h.machine.best(only(hints, func(hint numa.Set) bool { return nodes.IsSubsetOf(hint) }))
	if !ok || preferred && !hint.Preferred {
		// Less than the affinity will do as well: what others need on some of its
		// nodes may be in the way.
		if less, found := h.machine.best(only(hints, func(hint numa.Set) bool { return hint.IsSubsetOf(nodes) })); found && (less.Preferred || !preferred) {
			return less.Nodes, nil
		}
	}
	switch {
	case ok && preferred && !hint.Preferred:
		return numa.Set{}, h.refuse(ErrNoPreferredExtension, request, affinity, false)
	case ok:
		return hint.Nodes, nil
	case h.unused(request, nodes):
		return numa.Set{}, h.refuse(ErrGroup, request, affinity, len(hints) == 0)
	}
	return numa.Set{}, h.refuse(ErrNoExtension, request, affinity, len(hints) == 0)
}

func only(hints []numa.Hint, wanted func(numa.Set) bool) []numa.Hint {
	return slices.DeleteFunc(slices.Clone(hints), func(h numa.Hint) bool { return !wanted(h.Nodes) })
}

// crowded reports whether there is no room for the request although as much is
// free.
func (h Host) crowded(pod podplan.Pod, name string, request podplan.Memory) bool {
	t := tenant{}
	if name != "" {
		t = tenant{pod.UID, earlierInits(pod, name)}
	}
	return h.unused(request, h.machine.ids) && len(h.query(request, t).hints()) == 0
}

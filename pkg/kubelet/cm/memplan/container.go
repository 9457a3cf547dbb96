// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// PlanContainer plans the container's own memory at the affinity and returns
// the pod's new record. The record is the old one, unchanged, when there is
// nothing to do: the container gets nothing exclusive, has its memory already,
// or had it and ended. In a pod that was allocated as a whole, missing
// containers are carved out of what the pod has.
func (h Host) PlanContainer(pod podplan.Pod, name string, affinity numa.Hint) (PodRecord, error) {
	record := adopted(pod, h.records.Pod(pod.UID))
	c, ok := pod.Container(name)
	if !ok {
		return record, nil
	}
	if record.Whole() {
		return complete(pod, record), nil
	}
	request := pod.ExclusiveMemory(c)
	if len(request) == 0 {
		return record, nil
	}
	if _, ok := record.Containers[name]; ok || hasEnded(pod, record, c) {
		return record, nil
	}
	nodes, err := h.choose(request, tenant{pod.UID, earlierInits(pod, name)}, affinity)
	if err != nil {
		return record, err
	}
	blocks := blocksOf(request, nodes)
	record = reuseInit(pod, record, name, blocks).with(name, blocks)
	record.asked = &pod
	return record, nil
}

// hasEnded reports whether the container is a standard init container without
// a record in a pod that has records of later containers, which were allocated
// after it. That is how the kubelet's own memory manager leaves one that has
// ended in its state file.
func hasEnded(pod podplan.Pod, record PodRecord, c podplan.Container) bool {
	if c.Kind != podplan.StandardInit {
		return false
	}
	at := slices.IndexFunc(pod.Containers, func(o podplan.Container) bool { return o.Name == c.Name })
	return slices.ContainsFunc(pod.Containers[at+1:], func(later podplan.Container) bool {
		_, ok := record.Containers[later.Name]
		return ok
	})
}

// earlierInits are the standard init containers declared before the container.
// They have ended when it starts.
func earlierInits(pod podplan.Pod, name string) []string {
	var inits []string
	for _, c := range pod.Containers {
		if c.Name == name {
			break
		}
		if c.Kind == podplan.StandardInit {
			inits = append(inits, c.Name)
		}
	}
	return inits
}

// reuseInit takes what the blocks have again out of the blocks of earlier init
// containers, so that the pod is charged with what it needs at any one time and
// not with the sum of its phases. What lay somewhere on the new block's nodes is
// covered by it, wherever on these nodes it comes to lie; what may lie
// elsewhere is not.
func reuseInit(pod podplan.Pod, record PodRecord, name string, blocks []Block) PodRecord {
	for _, b := range blocks {
		left := b.Size
		for _, init := range earlierInits(pod, name) {
			old := record.Containers[init]
			shrunk := slices.Clone(old)
			for i := range shrunk {
				if shrunk[i].Resource == b.Resource && shrunk[i].Nodes.IsSubsetOf(b.Nodes) {
					taken := min(left, shrunk[i].Size)
					shrunk[i].Size -= taken
					left -= taken
				}
			}
			if !slices.Equal(old, shrunk) {
				record = record.with(init, shrunk)
			}
		}
	}
	return record
}

// BoundTo is the NUMA nodes that the container's memory is bound to, none if it
// may lie anywhere. An init container with memory of its own that is not on record
// any more, because the kubelet's own memory manager or an earlier version let go
// of it, runs where its pod is.
func (p PodRecord) BoundTo(pod podplan.Pod, name string) numa.Set {
	if blocks := p.Containers[name]; len(blocks) > 0 {
		return nodesOf(blocks)
	}
	if c, ok := pod.Container(name); ok && c.Kind == podplan.StandardInit && len(pod.ExclusiveMemory(c)) > 0 {
		return p.Nodes()
	}
	return numa.Set{}
}

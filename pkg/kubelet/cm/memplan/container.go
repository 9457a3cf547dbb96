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
	record := h.records.Pod(pod.UID)
	c, ok := pod.Container(name)
	if !ok {
		return record, nil
	}
	request := pod.ExclusiveMemory(c)
	if len(request) == 0 {
		return record, nil
	}
	if record.Whole() {
		return complete(pod, record), nil
	}
	if _, ok := record.Containers[name]; ok || hasEnded(pod, record, c) {
		return record, nil
	}
	nodes, err := h.choose(request, reuseFor(pod, record, name), affinity)
	if err != nil {
		return record, err
	}
	blocks := blocksOf(request, nodes)
	return reuseInit(pod, record, name, blocks).with(name, blocks), nil
}

// hasEnded reports whether the container is a standard init container without
// a record in a pod that has records of later containers. They were allocated
// after it and start after it ended, so its memory was given back; this is how
// the kubelet's own memory manager leaves it in its state file.
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

// earlierInits yields the standard init containers declared before the
// container.
func earlierInits(pod podplan.Pod, name string) []podplan.Container {
	var inits []podplan.Container
	for _, c := range pod.Containers {
		if c.Name == name {
			break
		}
		if c.Kind == podplan.StandardInit {
			inits = append(inits, c)
		}
	}
	return inits
}

// reuseFor is what the container can have again of the init containers before
// it. Their recorded blocks are what nobody after them has taken over yet, so
// the sum of the blocks is what can still be had.
func reuseFor(pod podplan.Pod, record PodRecord, name string) reusable {
	var r reusable
	for _, init := range earlierInits(pod, name) {
		for _, b := range record.Containers[init.Name] {
			if b.Size == 0 {
				continue
			}
			if r == nil {
				r = reusable{}
			}
			if r[b.Nodes] == nil {
				r[b.Nodes] = podplan.Memory{}
			}
			r[b.Nodes][b.Resource] = add(r[b.Nodes][b.Resource], b.Size)
		}
	}
	return r
}

// reuseInit takes what the blocks have again out of the blocks of earlier init
// containers on the same nodes, so that the sum over the pod stays what the
// pod really holds at any one time.
func reuseInit(pod podplan.Pod, record PodRecord, name string, blocks []Block) PodRecord {
	for _, b := range blocks {
		left := b.Size
		for _, init := range earlierInits(pod, name) {
			old := record.Containers[init.Name]
			shrunk := slices.Clone(old)
			for i := range shrunk {
				if shrunk[i].Resource == b.Resource && shrunk[i].Nodes == b.Nodes {
					taken := min(left, shrunk[i].Size)
					shrunk[i].Size -= taken
					left -= taken
				}
			}
			if !slices.Equal(old, shrunk) {
				record = record.with(init.Name, shrunk)
			}
		}
	}
	return record
}

// Started gives back what the standard init containers before the container
// hold: they have ended when it starts. Their entries stay, without blocks, as
// the mark that they had their memory. In a pod that was allocated as a whole
// there is nothing to give back, since the pod keeps its budget for life.
func (h Host) Started(pod podplan.Pod, name string) PodRecord {
	record := h.records.Pod(pod.UID)
	if record.Whole() {
		return record
	}
	if _, ok := pod.Container(name); !ok {
		return record
	}
	for _, init := range earlierInits(pod, name) {
		if len(record.Containers[init.Name]) > 0 {
			record = record.with(init.Name, []Block{})
		}
	}
	return record
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"iter"
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Block is an amount of one resource on a set of NUMA nodes. How it is spread
// over the nodes is not recorded: the kernel decides that.
type Block struct {
	Nodes    numa.Set
	Resource string
	// Size is in bytes.
	Size uint64
}

// PodRecord is what one pod has. It is a value: whoever changes a record makes
// a new one.
type PodRecord struct {
	// Pod is the allocation of a pod that was allocated as a whole. When it is
	// there, it is what the machine is charged with, and the containers' blocks
	// only say how it is carved.
	Pod []Block
	// Containers holds the blocks of each container. Those of a standard init
	// container are smaller than what it was given by what later containers have
	// of it again, down to blocks of nothing, which say where it lies. The pod
	// keeps the rest for life, since its init containers run again when its
	// sandbox is made anew. An entry without blocks, as earlier versions wrote
	// them, is one that gave back what it had.
	Containers map[string][]Block
	// asked is what the pod asks for, nil as long as that is not known; see
	// Records.Know. It is no part of what is recorded.
	asked *podplan.Pod
}

// IsEmpty reports whether nothing is recorded.
func (p PodRecord) IsEmpty() bool { return len(p.Pod) == 0 && len(p.Containers) == 0 }

// Whole reports whether the pod was allocated as a whole.
func (p PodRecord) Whole() bool { return len(p.Pod) > 0 }

// Charges yields the blocks that the machine is charged with.
func (p PodRecord) Charges() iter.Seq[Block] {
	return func(yield func(Block) bool) {
		if p.Whole() {
			for _, b := range p.Pod {
				if !yield(b) {
					return
				}
			}
			return
		}
		for _, name := range p.names() {
			for _, b := range p.Containers[name] {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// names are the containers, sorted. Most pods have one, and all pods are looked at
// whenever one is placed.
func (p PodRecord) names() []string {
	if len(p.Containers) != 1 {
		return slices.Sorted(maps.Keys(p.Containers))
	}
	var one [1]string
	for one[0] = range p.Containers {
	}
	return one[:]
}

// Nodes is the union of the nodes that the pod is charged on.
func (p PodRecord) Nodes() numa.Set {
	var set numa.Set
	if p.Whole() {
		for _, b := range p.Pod {
			set = set.Union(b.Nodes)
		}
		return set
	}
	for _, blocks := range p.Containers {
		for _, b := range blocks {
			set = set.Union(b.Nodes)
		}
	}
	return set
}

// Repaired returns the record with the pod where its containers are. They can be
// elsewhere in what the kubelet's own memory manager leaves behind when it stops
// while it writes a pod that it places a second time: the new place of the pod and
// the old ones of its containers, which run there.
func (p PodRecord) Repaired() PodRecord {
	if !p.Whole() {
		return p
	}
	pod := slices.Clone(p.Pod)
	for i, b := range pod {
		var nodes numa.Set
		for name := range p.Containers {
			if own, ok := p.block(name, b.Resource); ok {
				nodes = nodes.Union(own.Nodes)
			}
		}
		if !nodes.IsSubsetOf(b.Nodes) {
			pod[i].Nodes = nodes
		}
	}
	p.Pod = pod
	return p
}

// with returns the record with one container's blocks replaced.
func (p PodRecord) with(container string, blocks []Block) PodRecord {
	containers := make(map[string][]Block, len(p.Containers)+1)
	maps.Copy(containers, p.Containers)
	containers[container] = blocks
	p.Containers = containers
	return p
}

// Equal reports whether both records say the same, in the same order.
func (p PodRecord) Equal(o PodRecord) bool {
	return slices.Equal(p.Pod, o.Pod) && maps.EqualFunc(p.Containers, o.Containers, slices.Equal)
}

// Records is what all pods have. It is immutable; the zero value is empty.
type Records struct {
	pods map[string]PodRecord
	uids []string
}

// NewRecords makes records of what each pod has, by pod UID. Pods without
// anything are left out. The caller must not change the map's values later.
func NewRecords(pods map[string]PodRecord) Records {
	kept := make(map[string]PodRecord, len(pods))
	for uid, pod := range pods {
		if !pod.IsEmpty() {
			kept[uid] = pod
		}
	}
	return Records{pods: kept, uids: slices.Sorted(maps.Keys(kept))}
}

// Len is the number of pods.
func (r Records) Len() int { return len(r.pods) }

// Pod returns what the pod has; the zero record when it has nothing.
func (r Records) Pod(uid string) PodRecord { return r.pods[uid] }

// All yields the pods in the order of their UIDs.
func (r Records) All() iter.Seq2[string, PodRecord] {
	return func(yield func(string, PodRecord) bool) {
		for _, uid := range r.uids {
			if !yield(uid, r.pods[uid]) {
				return
			}
		}
	}
}

// With returns the records with the pod's replaced; an empty record removes
// the pod.
func (r Records) With(uid string, pod PodRecord) Records {
	pods := make(map[string]PodRecord, len(r.pods)+1)
	maps.Copy(pods, r.pods)
	uids := r.uids
	at, there := slices.BinarySearch(uids, uid)
	switch {
	case pod.IsEmpty() && there:
		uids = slices.Concat(uids[:at], uids[at+1:])
	case !pod.IsEmpty() && !there:
		uids = slices.Concat(uids[:at], []string{uid}, uids[at:])
	}
	if pods[uid] = pod; pod.IsEmpty() {
		delete(pods, uid)
	}
	return Records{pods: pods, uids: uids}
}

// Keep returns the records of the pods and containers for which keep answers
// true; it is asked about a pod with an empty container name. The answer says
// whether anything was left out.
func (r Records) Keep(keep func(uid, container string) bool) (Records, bool) {
	var kept map[string]PodRecord
	for _, uid := range r.uids {
		pod := r.pods[uid]
		trimmed := PodRecord{}
		if keep(uid, "") {
			trimmed = pod.keep(func(container string) bool { return keep(uid, container) })
		}
		if trimmed.Equal(pod) {
			continue
		}
		if kept == nil {
			kept = maps.Clone(r.pods)
		}
		kept[uid] = trimmed
	}
	if kept == nil {
		return r, false
	}
	return NewRecords(kept), true
}

func (p PodRecord) keep(keep func(container string) bool) PodRecord {
	containers := maps.Clone(p.Containers)
	maps.DeleteFunc(containers, func(name string, _ []Block) bool { return !keep(name) })
	p.Containers = containers
	return p
}

// Without returns the record without the container. What the pod was given goes
// with its last long-running container: its init containers have ended.
func (p PodRecord) Without(container string) PodRecord {
	p = p.keep(func(name string) bool { return name != container })
	for name, blocks := range p.Containers {
		if p.asked == nil && (p.Whole() || len(blocks) > 0) {
			return p
		}
		if p.asked != nil {
			if c, ok := p.asked.Container(name); ok && c.Kind.LongRunning() {
				return p
			}
		}
	}
	return PodRecord{}
}

// PerContainer returns the records with pods that were allocated as a whole
// written as if their containers had been allocated one by one, for kubelets that
// know nothing else: on the pod's nodes, and so that the containers add up to
// what the pod has. Containers that share, and init containers, which both have
// memory that others have as well, are left with less, down to blocks of nothing,
// which say where the container is to run.
func (r Records) PerContainer() Records {
	pods := make(map[string]PodRecord, len(r.pods))
	for uid, pod := range r.pods {
		pods[uid] = pod.perContainer()
	}
	return NewRecords(pods)
}

func (p PodRecord) perContainer() PodRecord {
	if !p.Whole() {
		return p
	}
	order := p.containersInOrder()
	split := PodRecord{Containers: make(map[string][]Block, len(order))}
	for _, name := range order {
		split.Containers[name] = nil
	}
	for _, b := range p.Pod {
		left, first := b.Size, ""
		for _, name := range order {
			own, ok := p.block(name, b.Resource)
			if !ok {
				continue
			}
			if first == "" {
				first = name
			}
			size := min(own.Size, left)
			left -= size
			split.Containers[name] = append(split.Containers[name], Block{b.Nodes, b.Resource, size})
		}
		if first != "" {
			blocks := split.Containers[first]
			blocks[len(blocks)-1].Size += left
		}
	}
	return split
}

// containersInOrder lists the containers with entries: those that run until the
// pod ends first, in the order of the spec, as far as that is known.
func (p PodRecord) containersInOrder() []string {
	names := slices.Sorted(maps.Keys(p.Containers))
	if p.asked == nil {
		return names
	}
	rank := func(name string) int {
		for i, c := range p.asked.Containers {
			if c.Name == name && c.Kind.LongRunning() {
				return i
			}
		}
		return len(p.asked.Containers)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

// blocksOf makes one block for each resource of the request, on the nodes.
func blocksOf(request podplan.Memory, nodes numa.Set) []Block {
	blocks := make([]Block, 0, len(request))
	for _, name := range sortedNames(request) {
		if request[name] > 0 {
			blocks = append(blocks, Block{Nodes: nodes, Resource: name, Size: request[name]})
		}
	}
	return blocks
}

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	theirstate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// What follows decides by trying everything, from upstream's state and the pod
// alone, what our rule allows and why upstream's does not.

// load is an amount of one resource that may lie on any of the nodes.
type load struct {
	nodes numa.Set
	size  uint64
}

// others is what is recorded of a resource, without the blocks of the pod's
// standard init containers before the container; these are the second answer.
func others(s theirstate.State, pod *v1.Pod, before string, resource v1.ResourceName) (fixed, ended []load) {
	for uid, entries := range s.GetMemoryAssignments() {
		if blocks := s.GetPodMemoryBlocks(uid); blocks != nil {
			fixed = append(fixed, loads(blocks, resource)...)
			continue
		}
		for name, blocks := range entries {
			if uid != string(pod.UID) || !endsBefore(pod, name, before) {
				fixed = append(fixed, loads(blocks, resource)...)
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if endsBefore(pod, c.Name, before) {
			ended = append(ended, loads(s.GetMemoryBlocks(string(pod.UID), c.Name), resource)...)
		}
	}
	return fixed, ended
}

// endsBefore reports whether the first is a standard init container that is
// declared before the second.
func endsBefore(pod *v1.Pod, first, second string) bool {
	for _, c := range containers(pod) {
		if c.Name == second {
			return false
		}
		if c.Name == first {
			return c.RestartPolicy == nil && slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == first })
		}
	}
	return false
}

func loads(blocks []theirstate.Block, resource v1.ResourceName) []load {
	var list []load
	for _, b := range blocks {
		if b.Type == resource {
			list = append(list, load{numa.SetOf(b.NUMAAffinity...), b.Size})
		}
	}
	return list
}

// allowed lists the sets of nodes on which our rule lets the container have its
// request.
func allowed(w *twins, pod *v1.Pod, container string, request map[v1.ResourceName]uint64) []numa.Set {
	var sets []numa.Set
	for set := range capable(w, request).Subsets() {
		if permits(w, pod, container, request, set) {
			sets = append(sets, set)
		}
	}
	return sets
}

// capable are the nodes that have any of the resources at all.
func capable(w *twins, request map[v1.ResourceName]uint64) numa.Set {
	var nodes numa.Set
	for id, node := range w.before {
		for name := range request {
			if node.MemoryMap[name].Allocatable > 0 {
				nodes = nodes.Union(numa.SetOf(id))
			}
		}
	}
	return nodes
}

func permits(w *twins, pod *v1.Pod, container string, request map[v1.ResourceName]uint64, set numa.Set) bool {
	for name, size := range request {
		fixed, ended := others(w.theirState, pod, container, name)
		left := size
		for _, e := range ended {
			if e.nodes.IsSubsetOf(set) {
				taken := min(left, e.size)
				left, e.size = left-taken, e.size-taken
			}
			fixed = append(fixed, e)
		}
		if !safe(w, append(fixed, load{set, size}), name) {
			return false
		}
	}
	return true
}

// safe reports whether each load's nodes have a part that cannot be exhausted.
func safe(w *twins, all []load, resource v1.ResourceName) bool {
	for _, l := range all {
		found := l.size == 0
		for part := range l.nodes.Subsets() {
			var has, may uint64
			for id := range part.All() {
				has += w.before[id].MemoryMap[resource].Allocatable
			}
			for _, o := range all {
				if !o.nodes.Intersection(part).IsEmpty() {
					may += o.size
				}
			}
			found = found || may <= has
		}
		if !found {
			return false
		}
	}
	return true
}

// mixes reports whether upstream's rule keeps the set from being used: before the
// present request a node of it held an allocation on other nodes.
func mixes(w *twins, set numa.Set) bool {
	for id := range set.All() {
		node := w.before[id]
		if node.NumberOfAssignments > 0 && numa.SetOf(node.Cells...) != set {
			return true
		}
	}
	return false
}

// mixesInits reports whether it is only the pod's ended init containers that
// keep the set from being used.
func mixesInits(w *twins, pod *v1.Pod, container string, set numa.Set) bool {
	inits := false
	for name := range w.before[0].MemoryMap {
		fixed, ended := others(w.theirState, pod, container, name)
		for _, l := range fixed {
			if l.nodes != set && !l.nodes.Intersection(set).IsEmpty() {
				return false
			}
		}
		for _, l := range ended {
			inits = inits || l.nodes != set && !l.nodes.Intersection(set).IsEmpty()
		}
	}
	return inits
}

// reuses reports whether the set has room for the request only because of what
// the pod's ended init containers have, which upstream counts only on equal
// sets.
func reuses(w *twins, pod *v1.Pod, container string, request map[v1.ResourceName]uint64, set numa.Set) bool {
	for name, size := range request {
		_, ended := others(w.theirState, pod, container, name)
		var free uint64
		for id := range set.All() {
			free += w.before[id].MemoryMap[name].Free
		}
		if free < size && len(ended) > 0 {
			return true
		}
	}
	return false
}

// idleSize is the smallest number of nodes that could hold the request on an
// idle machine, 0 if none could.
func idleSize(w *twins, request map[v1.ResourceName]uint64) int {
	for set := range capable(w, request).Subsets() {
		enough := true
		for name, size := range request {
			var has uint64
			for id := range set.All() {
				has += w.before[id].MemoryMap[name].Allocatable
			}
			enough = enough && has >= size
		}
		if enough {
			return set.Size()
		}
	}
	return 0
}

// requestOf is the memory that the container asks for.
func requestOf(list v1.ResourceList) map[v1.ResourceName]uint64 {
	request := map[v1.ResourceName]uint64{}
	for name, quantity := range list {
		if name != v1.ResourceCPU {
			request[name] = uint64(quantity.Value())
		}
	}
	return request
}

// laterPeak is what a standard init container and those after it need at once,
// as far as they have its memory again.
func laterPeak(pod *v1.Pod, c *v1.Container) map[v1.ResourceName]uint64 {
	own := requestOf(c.Resources.Requests)
	if !endsBefore(pod, c.Name, "") {
		return own
	}
	all := containers(pod)
	all = all[slices.IndexFunc(all, func(o *v1.Container) bool { return o.Name == c.Name })+1:]
	peak := map[v1.ResourceName]uint64{}
	for name, most := range own {
		var sidecars, takers uint64
		for _, later := range all {
			wants := requestOf(later.Resources.Requests)[name]
			if later.RestartPolicy != nil {
				sidecars += wants
			} else if endsBefore(pod, later.Name, "") {
				most = max(most, sidecars+wants)
			}
		}
		for _, later := range all {
			if !endsBefore(pod, later.Name, "") && takers < most {
				takers += requestOf(later.Resources.Requests)[name]
			}
		}
		peak[name] = max(most, takers)
	}
	return peak
}

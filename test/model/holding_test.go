// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/cpuset"

	memorystate "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/test/simnode"
)

// cpuHolding is the CPUs on record for a pod.
type cpuHolding struct {
	pod        cpuset.CPUSet
	containers map[string]cpuset.CPUSet
}

func (h cpuHolding) isEmpty() bool { return h.pod.IsEmpty() && len(h.containers) == 0 }

func (h cpuHolding) equal(o cpuHolding) bool {
	return alike(h.pod, o.pod) && maps.EqualFunc(h.containers, o.containers, alike)
}

// alike is Equals, for which the zero value is not empty.
func alike(a, b cpuset.CPUSet) bool { return a.Size() == b.Size() && a.IsSubsetOf(b) }

func (h cpuHolding) all() cpuset.CPUSet {
	sets := []cpuset.CPUSet{}
	for _, cpus := range h.containers {
		sets = append(sets, cpus)
	}
	return h.pod.Union(sets...)
}

func (h cpuHolding) String() string {
	parts := []string{"cpus"}
	if !h.pod.IsEmpty() {
		parts = append(parts, "pod="+h.pod.String())
	}
	for _, name := range slices.Sorted(maps.Keys(h.containers)) {
		parts = append(parts, name+"="+h.containers[name].String())
	}
	return strings.Join(parts, " ")
}

// memoryHolding is the memory on record for a pod.
type memoryHolding struct {
	pod        []memorystate.Block
	containers map[string][]memorystate.Block
}

func (h memoryHolding) isEmpty() bool { return len(h.pod) == 0 && len(h.containers) == 0 }

func (h memoryHolding) equal(o memoryHolding) bool {
	return sameBlocks(h.pod, o.pod) && maps.EqualFunc(h.containers, o.containers, sameBlocks)
}

func sameBlocks(a, b []memorystate.Block) bool {
	return slices.EqualFunc(a, b, func(x, y memorystate.Block) bool {
		return x.Type == y.Type && x.Size == y.Size && slices.Equal(x.NUMAAffinity, y.NUMAAffinity)
	})
}

// charges are the blocks that the machine is charged with.
func (h memoryHolding) charges() []memorystate.Block {
	if len(h.pod) > 0 {
		return h.pod
	}
	var all []memorystate.Block
	for _, name := range slices.Sorted(maps.Keys(h.containers)) {
		all = append(all, h.containers[name]...)
	}
	return all
}

func (h memoryHolding) String() string {
	parts := []string{"memory"}
	write := func(name string, blocks []memorystate.Block) {
		for _, b := range blocks {
			parts = append(parts, fmt.Sprintf("%s=%s %dMi on %v", name, b.Type, b.Size>>20, b.NUMAAffinity))
		}
	}
	write("pod", h.pod)
	for _, name := range slices.Sorted(maps.Keys(h.containers)) {
		write(name, h.containers[name])
	}
	return strings.Join(parts, " ")
}

// told is what the managers tell of one container, beside what is on record.
type told struct {
	cpuLevel, memoryLevel cmqos.ResourceIsolationLevel
	// mems is the NUMA nodes as bits.
	mems uint64
	// affinity is -1 if it is any.
	affinity  int64
	preferred bool
}

// holding is all that the managers tell of a pod.
type holding struct {
	cpus   cpuHolding
	memory memoryHolding
	told   []told
}

// look asks the managers about a pod.
func look(n *simnode.Node, pod *v1.Pod) holding {
	uid := string(pod.UID)
	h := holding{
		cpus:   cpuHolding{pod: n.CPU.GetPodCPUs(uid)},
		memory: memoryHolding{pod: n.Memory.GetPodMemory(uid)},
	}
	cpus := n.CPU.State()
	for c := range simnode.Containers(pod) {
		if set, ok := cpus.GetCPUSet(uid, c.Name); ok {
			if h.cpus.containers == nil {
				h.cpus.containers = map[string]cpuset.CPUSet{}
			}
			h.cpus.containers[c.Name] = set
		}
		if blocks := n.Memory.GetMemory(n.Logger, uid, c.Name); blocks != nil {
			if h.memory.containers == nil {
				h.memory.containers = map[string][]memorystate.Block{}
			}
			h.memory.containers[c.Name] = blocks
		}
		t := told{
			cpuLevel:    n.CPU.GetResourceIsolationLevel(pod, c),
			memoryLevel: n.Memory.GetResourceIsolationLevel(pod, c),
			affinity:    -1,
		}
		for id := range n.Memory.GetMemoryNUMANodes(n.Logger, pod, c) {
			t.mems |= 1 << id
		}
		hint := n.Topology.GetAffinity(n.Logger, uid, c.Name)
		if t.preferred = hint.Preferred; hint.NUMANodeAffinity != nil {
			t.affinity = 0
			for _, id := range hint.NUMANodeAffinity.GetBits() {
				t.affinity |= 1 << id
			}
		}
		h.told = append(h.told, t)
	}
	return h
}

// levels checks that the isolation levels are what follows from the records.
func (h holding) levels(pod *v1.Pod) error {
	i := 0
	for c := range simnode.Containers(pod) {
		t := h.told[i]
		i++
		_, cpus := h.cpus.containers[c.Name]
		if want := level(cpus, !h.cpus.pod.IsEmpty(), guaranteed(c) && whole(c.Resources.Limits) > 0); t.cpuLevel != want {
			return wrong("level", "pod %s, container %s: CPU isolation level %v, not %v: %s", pod.Name, c.Name, t.cpuLevel, want, h.cpus)
		}
		memory := len(h.memory.containers[c.Name]) > 0
		if want := level(memory, len(h.memory.pod) > 0, guaranteed(c)); t.memoryLevel != want {
			return wrong("level", "pod %s, container %s: memory isolation level %v, not %v: %s", pod.Name, c.Name, t.memoryLevel, want, h.memory)
		}
		var nodes uint64
		for _, b := range h.memory.containers[c.Name] {
			for _, id := range b.NUMAAffinity {
				nodes |= 1 << id
			}
		}
		if memory && t.mems != nodes {
			return wrong("level", "pod %s, container %s is bound to NUMA nodes %b: %s", pod.Name, c.Name, t.mems, h.memory)
		}
	}
	return nil
}

func level(recorded, whole, own bool) cmqos.ResourceIsolationLevel {
	switch {
	case !recorded:
		return cmqos.ResourceIsolationHost
	case whole && !own:
		return cmqos.ResourceIsolationPod
	}
	return cmqos.ResourceIsolationContainer
}

// violation is something that must never be. Of two with the same kind it is
// supposed that they have the same cause.
type violation struct{ kind, text string }

func (v violation) Error() string { return v.kind + ": " + v.text }

func wrong(kind, format string, args ...any) error {
	return violation{kind, fmt.Sprintf(format, args...)}
}

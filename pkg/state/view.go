// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
)

// View is what the files say, as it is shown.
type View struct {
	CPU    *CPUView    `json:"cpuManager,omitempty"`
	Memory *MemoryView `json:"memoryManager,omitempty"`
	Pods   []PodView   `json:"pods"`
}

// FileView is one file.
type FileView struct {
	File    string     `json:"file"`
	Version int        `json:"version"`
	Policy  string     `json:"policy"`
	Parts   []PartView `json:"parts"`
}

// PartView is one part of a file.
type PartView struct {
	Name     string `json:"name"`
	Used     bool   `json:"used"`
	Checksum uint64 `json:"checksum"`
	// Computed is the checksum of the content.
	Computed uint64 `json:"computed"`
	Error    string `json:"error,omitempty"`
}

// CPUView is the CPU manager's file.
type CPUView struct {
	FileView
	Shared string `json:"nodeSharedPool"`
	// ByID is the CPUs of containers of which the file has the IDs alone.
	ByID map[string]string `json:"containersByID,omitempty"`
}

// MemoryView is the memory manager's file.
type MemoryView struct {
	FileView
	Nodes []NodeView `json:"numaNodes"`
}

// NodeView is one NUMA node; sizes are bytes.
type NodeView struct {
	ID        int            `json:"id"`
	Group     []int          `json:"group"`
	Blocks    int            `json:"blocks"`
	Resources []ResourceView `json:"resources"`
}

// ResourceView is one resource of a NUMA node.
type ResourceView struct {
	Name           string `json:"name"`
	Total          uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// PodView is one pod: what it has as a whole, and its containers.
type PodView struct {
	UID        string          `json:"uid"`
	CPUs       string          `json:"cpus,omitempty"`
	Memory     []BlockView     `json:"memory,omitempty"`
	Containers []ContainerView `json:"containers"`
}

// ContainerView is one container.
type ContainerView struct {
	Name string `json:"name"`
	// Level is the isolation level of its CPUs: container, pod or host, or empty
	// where the files do not tell.
	Level  string      `json:"level,omitempty"`
	CPUs   string      `json:"cpus,omitempty"`
	Memory []BlockView `json:"memory,omitempty"`
}

// BlockView is memory on NUMA nodes.
type BlockView struct {
	Resource string `json:"resource"`
	Bytes    uint64 `json:"bytes"`
	Nodes    []int  `json:"numaNodes"`
}

// View shows the part of each file that counts.
func (f Files) View() View {
	v := View{Pods: []PodView{}}
	cpus, memory := map[string]cpuplan.Record{}, map[string]memplan.PodRecord{}
	hasCPU := false
	if f.CPU != nil {
		v.CPU = &CPUView{FileView: f.CPU.view()}
		if used := f.CPU.used(); used != nil {
			v.CPU.Policy, v.CPU.Shared = used.content.policy, used.content.shared.String()
			for id, set := range used.content.byID {
				if v.CPU.ByID == nil {
					v.CPU.ByID = map[string]string{}
				}
				v.CPU.ByID[id] = set.String()
			}
			cpus, hasCPU = used.content.records, used.content.policy == "static" && f.CPU.Version != 1
		}
	}
	if f.Memory != nil {
		v.Memory = &MemoryView{FileView: f.Memory.view(), Nodes: []NodeView{}}
		if used := f.Memory.used(); used != nil {
			v.Memory.Policy = used.content.policy
			v.Memory.Nodes = used.content.nodes()
			memory = used.content.pods
		}
	}
	uids := map[string]bool{}
	for uid := range cpus {
		uids[uid] = true
	}
	for uid := range memory {
		uids[uid] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		c, m := cpus[uid], memory[uid]
		pod := PodView{UID: uid, CPUs: c.Pod.String(), Memory: blockViews(m.Pod), Containers: []ContainerView{}}
		names := map[string]bool{}
		for name := range c.Containers {
			names[name] = true
		}
		for name := range m.Containers {
			names[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			one := ContainerView{Name: name, CPUs: c.Containers[name].String(), Memory: blockViews(m.Containers[name])}
			if hasCPU {
				one.Level = level(c, name)
			}
			pod.Containers = append(pod.Containers, one)
		}
		v.Pods = append(v.Pods, pod)
	}
	return v
}

// level tells the isolation level as far as it follows from what is recorded. In a
// pod that was allocated as a whole, the containers in its shared pool have the
// same CPUs; a container that has some alone may be the only one in the pool,
// unless others are seen in it.
func level(r cpuplan.Record, name string) string {
	cpus, ok := r.Containers[name]
	if !ok {
		return "host"
	}
	if r.Pod.IsEmpty() {
		return "container"
	}
	pool, overlaps := false, false
	for other, o := range r.Containers {
		if other == name {
			continue
		}
		if o.Equals(cpus) {
			return "pod"
		}
		overlaps = overlaps || o.Overlaps(cpus)
		for third, t := range r.Containers {
			pool = pool || third != other && third != name && t.Equals(o)
		}
	}
	if pool && !overlaps {
		return "container"
	}
	return ""
}

func (f *file[T]) view() FileView {
	v := FileView{File: f.base(), Version: f.Version, Parts: []PartView{}}
	for _, p := range f.parts() {
		one := PartView{Name: p.name, Used: p == f.used(), Checksum: uint64(p.written), Computed: uint64(p.computed)}
		if p.err != nil {
			one.Error = p.err.Error()
		}
		if f.data == nil {
			one.Name = "whole"
		}
		v.Parts = append(v.Parts, one)
	}
	return v
}

func (c *memoryContent) nodes() []NodeView {
	list := []NodeView{}
	for _, id := range slices.Sorted(maps.Keys(c.machine)) {
		n := c.machine[id]
		if n == nil {
			continue
		}
		v := NodeView{ID: id, Group: n.Cells, Blocks: n.NumberOfAssignments, Resources: []ResourceView{}}
		for _, name := range slices.Sorted(maps.Keys(n.MemoryMap)) {
			if t := n.MemoryMap[name]; t != nil {
				v.Resources = append(v.Resources, ResourceView{string(name), t.TotalMemSize, t.SystemReserved, t.Allocatable, t.Reserved, t.Free})
			}
		}
		list = append(list, v)
	}
	return list
}

func blockViews(blocks []memplan.Block) []BlockView {
	var list []BlockView
	for _, b := range blocks {
		list = append(list, BlockView{b.Resource, b.Size, b.Nodes.List()})
	}
	return list
}

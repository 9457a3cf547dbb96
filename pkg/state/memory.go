// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/state/checksum"
	format "github.com/podslice/podslice/pkg/state/memorymanager/state"
)

// MemoryFile is the memory manager's file.
type MemoryFile struct{ file[memoryContent] }

// memoryContent is the content of one part.
type memoryContent struct {
	policy  string
	machine format.NUMANodeMap
	pods    map[string]memplan.PodRecord
	bad     []badEntry
	// entries is what it was read from; the checks of older kubelets go by it.
	entries format.Data
}

func dataSum(text string) checksum.Checksum { return checksum.Of(text) }

func readMemory(path string, raw []byte) *MemoryFile {
	f := &MemoryFile{file[memoryContent]{Path: path, Raw: raw}}
	f.inline = &part[memoryContent]{name: "inline"}
	members, whole := fields(raw)
	f.broken = whole
	if p, data, ok := readData[format.Data](members, whole); ok {
		f.Version = 3
		f.data = &part[memoryContent]{name: p.name, written: p.written, computed: p.computed, err: p.err, content: memoryContentOf(data)}
	}
	if members["checksum"] == nil && whole != nil {
		f.inline.err = whole
		return f
	}
	var v2 format.MemoryManagerCheckpointV2
	if f.inline.err = decode(members, &v2); f.inline.err != nil {
		return f
	}
	if members["machineState"] == nil && members["policyName"] == nil {
		f.inline.err = errors.New("the file has neither a policyName nor a machineState")
		return f
	}
	data := format.Data{PolicyName: v2.PolicyName, MachineState: v2.MachineState, Entries: v2.Entries}
	f.inline.written, f.inline.computed = v2.Checksum, data.Sum1()
	if f.data == nil {
		f.Version = 1
		with := data
		with.PodEntries = v2.PodEntries
		if sum := with.Sum2(); sum == v2.Checksum || v2.PodEntries != nil {
			f.Version, f.inline.computed, data = 2, sum, with
		}
	}
	if f.inline.written == 0 && f.Version != 2 {
		f.inline.computed = 0 // a checksum of 0 is one that was never taken
	}
	f.inline.content = memoryContentOf(data)
	f.checkKnown(&struct {
		format.MemoryManagerCheckpointV2
		Data         string            `json:"data"`
		DataChecksum checksum.Checksum `json:"dataChecksum"`
	}{}, &format.Data{})
	return f
}

func memoryContentOf(data format.Data) memoryContent {
	c := memoryContent{policy: data.PolicyName, machine: data.MachineState, pods: map[string]memplan.PodRecord{}, entries: data}
	read := func(pod, container string, blocks []format.Block) ([]memplan.Block, bool) {
		list, err := blocksOf(blocks)
		if err != nil {
			c.bad = append(c.bad, badEntry{pod, container, err.Error()})
		}
		return list, err == nil
	}
	for _, pod := range slices.Sorted(maps.Keys(data.Entries)) {
		r := memplan.PodRecord{Containers: map[string][]memplan.Block{}}
		for _, name := range slices.Sorted(maps.Keys(data.Entries[pod])) {
			if blocks, ok := read(pod, name, data.Entries[pod][name]); ok {
				r.Containers[name] = blocks
			}
		}
		c.pods[pod] = r
	}
	for _, pod := range slices.Sorted(maps.Keys(data.PodEntries)) {
		r := c.pods[pod]
		r.Pod, _ = read(pod, "", data.PodEntries[pod].MemoryBlocks)
		c.pods[pod] = r
	}
	return c
}

// blocksOf reads blocks. No two are of the same resource.
func blocksOf(blocks []format.Block) ([]memplan.Block, error) {
	list := make([]memplan.Block, 0, len(blocks))
	for _, b := range blocks {
		nodes, err := numa.NewSet(b.NUMAAffinity...)
		if err != nil {
			return nil, err
		}
		if nodes.IsEmpty() {
			return nil, fmt.Errorf("a block of %s of %s lies on no NUMA node", numa.Bytes(b.Size), b.Type)
		}
		if slices.ContainsFunc(list, func(o memplan.Block) bool { return o.Resource == string(b.Type) }) {
			return nil, fmt.Errorf("there are two blocks of %s", b.Type)
		}
		list = append(list, memplan.Block{Nodes: nodes, Resource: string(b.Type), Size: b.Size})
	}
	return list, nil
}

func blocksToFormat(blocks []memplan.Block) []format.Block {
	list := make([]format.Block, 0, len(blocks))
	for _, b := range blocks {
		list = append(list, format.Block{NUMAAffinity: b.Nodes.List(), Type: v1.ResourceName(b.Resource), Size: b.Size})
	}
	return list
}

func (c *memoryContent) uids() []string { return slices.Sorted(maps.Keys(c.pods)) }

func (c *memoryContent) records() memplan.Records { return memplan.NewRecords(c.pods) }

func (c memoryContent) clone() memoryContent {
	c.pods = maps.Clone(c.pods)
	return c
}

// capacities is the machine that the tables of the file tell of. The error says
// which numbers contradict each other.
func capacities(machine format.NUMANodeMap) (memplan.Machine, error) {
	var specs []memplan.NodeSpec
	for _, id := range slices.Sorted(maps.Keys(machine)) {
		node := machine[id]
		if node == nil {
			return memplan.Machine{}, fmt.Errorf("NUMA node %d has no numbers", id)
		}
		spec := memplan.NodeSpec{ID: id, HugePages: map[string]uint64{}, Reserved: map[string]uint64{}}
		for name, t := range node.MemoryMap {
			if t == nil {
				return memplan.Machine{}, fmt.Errorf("NUMA node %d, %s: there are no numbers", id, name)
			}
			if name == memplan.Ordinary {
				spec.Memory = t.TotalMemSize
			} else {
				spec.HugePages[string(name)] = t.TotalMemSize
			}
			spec.Reserved[string(name)] = t.SystemReserved
		}
		specs = append(specs, spec)
	}
	m, err := memplan.NewMachine(specs)
	if err != nil {
		return memplan.Machine{}, err
	}
	for _, id := range slices.Sorted(maps.Keys(machine)) {
		for _, name := range slices.Sorted(maps.Keys(machine[id].MemoryMap)) {
			t := machine[id].MemoryMap[name]
			if c, ok := m.Capacity(id, string(name)); ok && c.Allocatable != t.Allocatable {
				return memplan.Machine{}, fmt.Errorf("NUMA node %d, %s: %s are allocatable, but the total without what is reserved and without hugepages is %s",
					id, name, numa.Bytes(t.Allocatable), numa.Bytes(c.Allocatable))
			}
		}
	}
	return m, nil
}

// machineState is what a file says of a machine and what is recorded on it.
func machineState(host memplan.Host) format.NUMANodeMap {
	nodes := format.NUMANodeMap{}
	for n := range host.Nodes() {
		node := &format.NUMANodeState{NumberOfAssignments: n.Assignments, MemoryMap: map[v1.ResourceName]*format.MemoryTable{}, Cells: n.Group.List()}
		for _, r := range n.Resources {
			node.MemoryMap[v1.ResourceName(r.Name)] = &format.MemoryTable{
				TotalMemSize: r.Total, SystemReserved: r.Capacity.Reserved, Allocatable: r.Allocatable, Reserved: r.Used, Free: r.Free,
			}
		}
		nodes[n.ID] = node
	}
	return nodes
}

// formatOf is the content of a file with the records on the machine.
func formatOf(policy string, machine memplan.Machine, records memplan.Records) format.Data {
	data := format.Data{PolicyName: policy, MachineState: machineState(memplan.NewHost(machine, records)), Entries: format.ContainerMemoryAssignments{}}
	for uid, pod := range records.All() {
		if pod.Whole() {
			if data.PodEntries == nil {
				data.PodEntries = format.PodMemoryAssignments{}
			}
			data.PodEntries[uid] = format.PodEntry{MemoryBlocks: blocksToFormat(pod.Pod)}
		}
		if len(pod.Containers) > 0 {
			data.Entries[uid] = map[string][]format.Block{}
		}
		for name, blocks := range pod.Containers {
			data.Entries[uid][name] = blocksToFormat(blocks)
		}
	}
	return data
}

// encode writes the records on the machine in a version of the file.
func encodeMemory(version int, policy string, machine memplan.Machine, records memplan.Records) ([]byte, error) {
	data := formatOf(policy, machine, records)
	switch version {
	case 1:
		return json.Marshal(format.MemoryManagerCheckpointV1{PolicyName: policy, MachineState: data.MachineState, Entries: data.Entries, Checksum: data.Sum1()})
	case 2:
		return json.Marshal(format.MemoryManagerCheckpointV2{PolicyName: policy, MachineState: data.MachineState, Entries: data.Entries, PodEntries: data.PodEntries, Checksum: data.Sum2()})
	}
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	inline := formatOf(policy, machine, records.PerContainer())
	return json.Marshal(format.V3{
		MemoryManagerCheckpointV1: format.MemoryManagerCheckpointV1{PolicyName: policy, MachineState: inline.MachineState, Entries: inline.Entries, Checksum: inline.Sum1()},
		Data:                      string(text), DataChecksum: dataSum(string(text)),
	})
}

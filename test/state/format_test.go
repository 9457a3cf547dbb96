// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/utils/cpuset"

	cpu "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	memory "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/state/checksum"
	cpuformat "github.com/podslice/podslice/pkg/state/cpumanager/state"
	memoryformat "github.com/podslice/podslice/pkg/state/memorymanager/state"
)

// TestFormatsAreTheManagers: what the managers' types write, those of the tool read
// and write again byte by byte, and compute the same checksums of it.
func TestFormatsAreTheManagers(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 8))
		checkCPUFormats(t, r)
		checkMemoryFormats(t, r)
	}
}

func written(t *testing.T, c checkpointmanager.Checkpoint) string {
	text, err := c.MarshalCheckpoint()
	require.NoError(t, err)
	return string(text)
}

// again reads the text into a type of the tool and has that write it.
func again[T any](t *testing.T, text string) (read T) {
	require.NoError(t, json.Unmarshal([]byte(text), &read))
	second, err := json.Marshal(read)
	require.NoError(t, err)
	require.Equal(t, text, string(second))
	return read
}

func checkCPUFormats(t *testing.T, r *rand.Rand) {
	set := func() cpuset.CPUSet { return cpuset.New(r.Perm(64)[:r.IntN(5)]...) }
	data := cpu.CPUManagerCheckpointData{
		PolicyName: []string{"static", "none", ""}[r.IntN(3)], DefaultCPUSet: set().String(),
		Entries: map[string]map[string]string{}, PodEntries: cpu.PodCPUAssignments{}, Baselines: map[string]map[string]cpu.ContainerCPUs{},
	}
	byID := map[string]string{}
	sets := map[string]cpuset.CPUSet{}
	for i := range r.IntN(4) {
		uid := fmt.Sprintf("pod-%d <&> é", i)
		data.Entries[uid], data.Baselines[uid] = map[string]string{}, map[string]cpu.ContainerCPUs{}
		for j := range r.IntN(4) {
			cpus := set().String()
			data.Entries[uid][fmt.Sprint("c", j)], byID[fmt.Sprint(uid, j)] = cpus, cpus
			data.Baselines[uid][fmt.Sprint("c", j)] = cpu.ContainerCPUs{Baseline: cpus}
		}
		if r.IntN(2) == 0 {
			sets[uid] = set()
			data.PodEntries[uid] = cpu.PodEntry{CPUSet: sets[uid]}
		}
	}
	v1 := again[cpuformat.V1](t, written(t, &cpu.CPUManagerCheckpointV1{PolicyName: data.PolicyName, DefaultCPUSet: data.DefaultCPUSet, Entries: byID}))
	require.Equal(t, v1.Checksum, v1.Sum1())
	v2 := again[cpuformat.Inline](t, written(t, &cpu.CPUManagerCheckpointV2{PolicyName: data.PolicyName, DefaultCPUSet: data.DefaultCPUSet, Entries: data.Entries}))
	ours := cpuformat.Data{PolicyName: v2.PolicyName, DefaultCPUSet: v2.DefaultCPUSet, Entries: v2.Entries}
	require.Equal(t, v2.Checksum, ours.Sum2())
	v3 := again[cpuformat.V3](t, written(t, &cpu.CPUManagerCheckpointV3{PolicyName: data.PolicyName, DefaultCPUSet: data.DefaultCPUSet, Entries: data.Entries, PodEntries: data.PodEntries}))
	require.Equal(t, v3.Checksum, ours.Sum3(sets))
	require.Equal(t, slices.Sorted(maps.Keys(sets)), slices.Sorted(maps.Keys(v3.PodEntries)))
	v4 := again[cpuformat.V4](t, written(t, &cpu.CPUManagerCheckpoint{CheckpointData: data}))
	require.Equal(t, v4.Checksum, ours.Sum2())
	require.Equal(t, v4.DataChecksum, checksum.Of(v4.Data))
	again[cpuformat.Data](t, v4.Data)
}

func checkMemoryFormats(t *testing.T, r *rand.Rand) {
	size := func() uint64 { return r.Uint64N(1 << 40) }
	blocks := func() []memory.Block {
		list := []memory.Block{}
		for range r.IntN(3) {
			list = append(list, memory.Block{NUMAAffinity: r.Perm(4)[:r.IntN(3)], Type: v1.ResourceHugePagesPrefix + "2Mi", Size: size()})
		}
		return list
	}
	data := memory.MemoryManagerCheckpointData{
		PolicyName: []string{"Static", "None", ""}[r.IntN(3)], MachineState: memory.NUMANodeMap{},
		Entries: memory.ContainerMemoryAssignments{}, PodEntries: memory.PodMemoryAssignments{},
	}
	for id := range r.IntN(4) {
		node := &memory.NUMANodeState{NumberOfAssignments: r.IntN(9), Cells: []int{id}, MemoryMap: map[v1.ResourceName]*memory.MemoryTable{}}
		for _, name := range []v1.ResourceName{"memory", "hugepages-1Gi"}[:r.IntN(3)] {
			node.MemoryMap[name] = &memory.MemoryTable{TotalMemSize: size(), SystemReserved: size(), Allocatable: size(), Reserved: size(), Free: size()}
		}
		data.MachineState[id] = node
	}
	for i := range r.IntN(4) {
		uid := fmt.Sprintf("pod-%d <&> é", i)
		data.Entries[uid] = map[string][]memory.Block{}
		for j := range r.IntN(4) {
			data.Entries[uid][fmt.Sprint("c", j)] = blocks()
		}
		if r.IntN(2) == 0 {
			data.PodEntries[uid] = memory.PodEntry{MemoryBlocks: append(blocks(), memory.Block{NUMAAffinity: []int{0}, Type: "memory", Size: size()})}
		}
	}
	first := again[memoryformat.MemoryManagerCheckpointV1](t, written(t, &memory.MemoryManagerCheckpointV1{PolicyName: data.PolicyName, MachineState: data.MachineState, Entries: data.Entries}))
	ours := memoryformat.Data{PolicyName: first.PolicyName, MachineState: first.MachineState, Entries: first.Entries}
	require.Equal(t, first.Checksum, ours.Sum1())
	second := again[memoryformat.MemoryManagerCheckpointV2](t, written(t, &memory.MemoryManagerCheckpointV2{PolicyName: data.PolicyName, MachineState: data.MachineState, Entries: data.Entries, PodEntries: data.PodEntries}))
	ours.PodEntries = second.PodEntries
	require.Equal(t, second.Checksum, ours.Sum2())
	third := again[memoryformat.V3](t, written(t, &memory.MemoryManagerCheckpoint{CheckpointData: data}))
	require.Equal(t, third.Checksum, ours.Sum1())
	require.Equal(t, third.DataChecksum, checksum.Of(third.Data))
	again[memoryformat.Data](t, third.Data)
}

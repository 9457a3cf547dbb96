// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	theirstate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"

	ourstate "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// withBudget turns a random pod into one with a budget; some of its containers
// lose their requests and share.
func withBudget(r *rand.Rand, pod *v1.Pod) {
	sum := resource.NewQuantity(64*mi, resource.BinarySI)
	huge := resource.NewQuantity(0, resource.BinarySI)
	for _, c := range containers(pod) {
		if r.IntN(2) == 0 {
			c.Resources = v1.ResourceRequirements{}
			continue
		}
		c.Resources.Requests[v1.ResourceCPU] = resource.MustParse("1")
		sum.Add(c.Resources.Requests[v1.ResourceMemory])
		huge.Add(c.Resources.Requests["hugepages-2Mi"])
	}
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: *sum}
	if !huge.IsZero() {
		list["hugepages-2Mi"] = *huge
	}
	if giant := sumOf(pod, "hugepages-1Gi"); !giant.IsZero() {
		list["hugepages-1Gi"] = giant
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
}

func sumOf(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	sum := resource.Quantity{}
	for _, c := range containers(pod) {
		sum.Add(c.Resources.Requests[name])
	}
	return sum
}

// overlapping reports whether some allocations lie on sets of nodes that overlap
// in a part, which upstream could not have made.
func overlapping(w *twins) bool {
	var sets []numa.Set
	state := w.ours.State()
	for uid, entries := range state.GetMemoryAssignments() {
		if blocks := state.GetPodMemoryBlocks(uid); len(blocks) > 0 {
			sets = append(sets, numa.SetOf(blocks[0].NUMAAffinity...))
			continue
		}
		for _, blocks := range entries {
			for _, b := range blocks {
				sets = append(sets, numa.SetOf(b.NUMAAffinity...))
			}
		}
	}
	for i, a := range sets {
		for _, b := range sets[:i] {
			if a != b && !a.Intersection(b).IsEmpty() {
				return true
			}
		}
	}
	return false
}

// TestUpstreamReadsPodsWithBudgets admits random pods with and without budgets
// and has upstream's code load and validate the file after each.
func TestUpstreamReadsPodsWithBudgets(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResources: true, features.PodLevelResourceManagers: true,
	})
	whole := 0
	for seed := range 30 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		w := newTwins(t, randomMachine(r, 1+r.IntN(4)))
		for step := range 20 {
			pod := randomPod(r, fmt.Sprintf("pod-%d", step))
			w.active = append(w.active, pod)
			var err error
			if r.IntN(3) > 0 {
				withBudget(r, pod)
				err = w.ours.AllocatePod(quiet, pod, add)
			} else {
				for _, c := range containers(pod) {
					if err = w.ours.Allocate(klog.NewContext(t.Context(), quiet), pod, c, add); err != nil {
						break
					}
				}
			}
			if overlapping(w) {
				w.active = nil
				w.collect()
				continue
			}
			loaded := w.loadOurs(t)
			require.Equal(t, len(w.ours.State().GetPodMemoryAssignments()), len(loaded.GetPodMemoryAssignments()))
			if len(loaded.GetPodMemoryBlocks(string(pod.UID))) > 0 {
				whole++
			}
			if err != nil || r.IntN(4) == 0 {
				w.active = slices.DeleteFunc(w.active, func(p *v1.Pod) bool { return p == pod || r.IntN(3) == 0 })
			}
		}
	}
	require.Greater(t, whole, 50)
	t.Logf("%d pods were allocated as a whole", whole)
}

// TestFileIsUpstreams writes each version with upstream's types and with ours,
// and compares the texts; the checksums in them depend on the Go types.
func TestFileIsUpstreams(t *testing.T) {
	theirMachine := theirstate.NUMANodeMap{0: {NumberOfAssignments: 1, Cells: []int{0}, MemoryMap: map[v1.ResourceName]*theirstate.MemoryTable{"memory": {TotalMemSize: 5, SystemReserved: 1, Allocatable: 4, Reserved: 3, Free: 1}}}}
	ourMachine := ourstate.NUMANodeMap{0: {NumberOfAssignments: 1, Cells: []int{0}, MemoryMap: map[v1.ResourceName]*ourstate.MemoryTable{"memory": {TotalMemSize: 5, SystemReserved: 1, Allocatable: 4, Reserved: 3, Free: 1}}}}
	theirEntries := theirstate.ContainerMemoryAssignments{"pod": {"init": {}, "app": {{NUMAAffinity: []int{0}, Type: "memory", Size: 3}}}}
	ourEntries := ourstate.ContainerMemoryAssignments{"pod": {"init": {}, "app": {{NUMAAffinity: []int{0}, Type: "memory", Size: 3}}}}
	theirPods := theirstate.PodMemoryAssignments{"pod": {MemoryBlocks: []theirstate.Block{{NUMAAffinity: []int{0}, Type: "memory", Size: 3}}}}
	ourPods := ourstate.PodMemoryAssignments{"pod": {MemoryBlocks: []ourstate.Block{{NUMAAffinity: []int{0}, Type: "memory", Size: 3}}}}
	for name, pair := range map[string][2]checkpointmanager.Checkpoint{
		"v1": {&theirstate.MemoryManagerCheckpointV1{PolicyName: "Static", MachineState: theirMachine, Entries: theirEntries},
			&ourstate.MemoryManagerCheckpointV1{PolicyName: "Static", MachineState: ourMachine, Entries: ourEntries}},
		"v2": {&theirstate.MemoryManagerCheckpointV2{PolicyName: "Static", MachineState: theirMachine, Entries: theirEntries, PodEntries: theirPods},
			&ourstate.MemoryManagerCheckpointV2{PolicyName: "Static", MachineState: ourMachine, Entries: ourEntries, PodEntries: ourPods}},
		"v3": {&theirstate.MemoryManagerCheckpoint{CheckpointData: theirstate.MemoryManagerCheckpointData{PolicyName: "Static", MachineState: theirMachine, Entries: theirEntries, PodEntries: theirPods}},
			&ourstate.MemoryManagerCheckpoint{CheckpointData: ourstate.MemoryManagerCheckpointData{PolicyName: "Static", MachineState: ourMachine, Entries: ourEntries, PodEntries: ourPods}}},
	} {
		t.Run(name, func(t *testing.T) {
			expected, err := pair[0].MarshalCheckpoint()
			require.NoError(t, err)
			text, err := pair[1].MarshalCheckpoint()
			require.NoError(t, err)
			require.Equal(t, string(expected), string(text))

			// Ours reads what theirs wrote.
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, fileName), expected, 0o600))
			machine, err := memplan.NewMachine([]memplan.NodeSpec{{ID: 0, Memory: 5, Reserved: map[string]uint64{"memory": 1}}})
			require.NoError(t, err)
			s, err := ourstate.Open(quiet, dir, fileName, "Static", machine)
			require.NoError(t, err)
			require.Equal(t, ourEntries, s.GetMemoryAssignments())
			require.Equal(t, name != "v1", len(s.GetPodMemoryAssignments()) == 1)
		})
	}
}

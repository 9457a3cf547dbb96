// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// GetMemoryNUMANodes implements Manager.
func (m *manager) GetMemoryNUMANodes(logger klog.Logger, pod *v1.Pod, container *v1.Container) sets.Set[int] {
	record := m.published().Records().Pod(string(pod.UID))
	if record.IsEmpty() {
		return nil
	}
	asked, _ := specOf(pod) // of one that cannot be read, what is recorded counts
	nodes := record.BoundTo(asked, container.Name)
	if nodes.IsEmpty() {
		return nil
	}
	logger.V(2).Info("Memory is bound to NUMA nodes", "pod", klog.KObj(pod), "containerName", container.Name, "numaNodes", nodes.String())
	return sets.New(nodes.List()...)
}

// GetAllocatableMemory implements Manager.
func (m *manager) GetAllocatableMemory(klog.Logger) []state.Block {
	blocks := []state.Block{}
	machine := m.policy.machine
	for id := range machine.Nodes().All() {
		for name, capacity := range machine.Resources(id) {
			if capacity.Allocatable > 0 {
				blocks = append(blocks, state.Block{NUMAAffinity: []int{id}, Type: v1.ResourceName(name), Size: capacity.Allocatable})
			}
		}
	}
	return blocks
}

// GetMemory implements Manager.
func (m *manager) GetMemory(_ klog.Logger, podUID, containerName string) []state.Block {
	return m.State().GetMemoryBlocks(podUID, containerName)
}

// GetPodMemory implements Manager.
func (m *manager) GetPodMemory(podUID string) []state.Block {
	return m.State().GetPodMemoryBlocks(podUID)
}

// GetResourceIsolationLevel implements Manager. A container that shares what
// its pod was given as a whole goes on sharing it when the feature gate is
// turned off: its record tells.
func (m *manager) GetResourceIsolationLevel(pod *v1.Pod, container *v1.Container) cmqos.ResourceIsolationLevel {
	record := m.published().Records().Pod(string(pod.UID))
	budget := record.Whole() ||
		utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResourceManagers) && resourcehelper.IsPodLevelResourcesSet(pod)
	return cmqos.ResourceIsolationLevel(podplan.IsolationOf(len(record.Containers[container.Name]) > 0, budget, podplan.HasMemorySlice(container)))
}

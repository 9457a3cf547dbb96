// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// ActivePodsFunc lists the pods that are not terminated; all others lose what
// they have.
type ActivePodsFunc func() []*v1.Pod

// runtimeService is what the kubelet passes. This manager updates no containers;
// see package running for what else it may be.
type runtimeService interface {
	UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error
}

// Manager is what the kubelet uses. It is a topologymanager.HintProvider; the
// one of NewManager is an AdmissionParticipant and PodAllocator too.
type Manager interface {
	// Start loads the state; before it nothing is recorded. A damaged state file
	// does not make it fail.
	Start(ctx context.Context, activePods ActivePodsFunc, sourcesReady config.SourcesReady, podStatusProvider status.PodStatusProvider, containerRuntime runtimeService, initialContainers containermap.ContainerMap) error

	// AddContainer tells the ID under which a container is about to start.
	AddContainer(logger klog.Logger, p *v1.Pod, c *v1.Container, containerID string)

	// Allocate gives the container memory of its own, if it is to have any, at
	// the affinity of the topology manager. What is recorded stays as it is.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error

	// RemoveContainer takes back what the container with this ID has. IDs that
	// are not known are ignored.
	RemoveContainer(logger klog.Logger, containerID string) error

	// State reads what is recorded.
	State() state.Reader

	// GetTopologyHints implements topologymanager.HintProvider.
	GetTopologyHints(logger klog.Logger, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint

	// GetPodTopologyHints implements topologymanager.HintProvider.
	GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint

	// AllocatePod gives a pod with a budget its memory as a whole, carved for
	// its containers.
	AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error

	// GetMemoryNUMANodes returns the NUMA nodes that the container's memory is
	// bound to; nil leaves it unbound.
	GetMemoryNUMANodes(logger klog.Logger, pod *v1.Pod, container *v1.Container) sets.Set[int]

	// GetAllocatableMemory returns what pods can have, one block for each NUMA
	// node and resource.
	GetAllocatableMemory(logger klog.Logger) []state.Block

	// GetMemory returns the blocks of a container.
	GetMemory(logger klog.Logger, podUID, containerName string) []state.Block

	// GetPodMemory returns the blocks of a pod that was allocated as a whole.
	GetPodMemory(podUID string) []state.Block

	// GetResourceIsolationLevel says whether the container has memory of its
	// own (container), shares its pod's (pod), or neither (host).
	GetResourceIsolationLevel(pod *v1.Pod, container *v1.Container) cmqos.ResourceIsolationLevel
}

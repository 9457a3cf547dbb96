// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// fakeManager gives nothing and refuses nothing. The kubelet itself uses it
// where there is no container manager.
type fakeManager struct{}

var _ Manager = fakeManager{}

// NewFakeManager returns a manager for which every container is on its own.
func NewFakeManager(klog.Logger) Manager { return fakeManager{} }

func (fakeManager) Start(context.Context, ActivePodsFunc, config.SourcesReady, status.PodStatusProvider, runtimeService, containermap.ContainerMap) error {
	return nil
}

func (fakeManager) AddContainer(klog.Logger, *v1.Pod, *v1.Container, string) {}

func (fakeManager) RemoveContainer(klog.Logger, string) error { return nil }

func (fakeManager) Allocate(context.Context, *v1.Pod, *v1.Container, lifecycle.Operation) error {
	return nil
}

func (fakeManager) AllocatePod(klog.Logger, *v1.Pod, lifecycle.Operation) error { return nil }

func (fakeManager) State() state.Reader { return state.New(memplan.Machine{}) }

func (fakeManager) GetTopologyHints(klog.Logger, *v1.Pod, *v1.Container, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return map[string][]topologymanager.TopologyHint{}
}

func (fakeManager) GetPodTopologyHints(klog.Logger, *v1.Pod, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return map[string][]topologymanager.TopologyHint{}
}

func (fakeManager) GetMemoryNUMANodes(klog.Logger, *v1.Pod, *v1.Container) sets.Set[int] { return nil }

func (fakeManager) GetAllocatableMemory(klog.Logger) []state.Block { return []state.Block{} }

func (fakeManager) GetMemory(klog.Logger, string, string) []state.Block { return []state.Block{} }

func (fakeManager) GetPodMemory(string) []state.Block { return []state.Block{} }

func (fakeManager) GetResourceIsolationLevel(*v1.Pod, *v1.Container) cmqos.ResourceIsolationLevel {
	return cmqos.ResourceIsolationContainer
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// fakeManager accepts everything and has no CPUs.
type fakeManager struct {
	logger klog.Logger
}

// NewFakeManager returns a manager for tests of other packages.
func NewFakeManager(logger klog.Logger) Manager {
	return &fakeManager{klog.LoggerWithName(logger, "cpu.fake")}
}

func (f *fakeManager) Start(context.Context, ActivePodsFunc, config.SourcesReady, status.PodStatusProvider, runtimeService, containermap.ContainerMap) error {
	f.logger.Info("Start")
	return nil
}

func (f *fakeManager) Allocate(_ context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error {
	f.logger.Info("Allocate", "pod", klog.KObj(pod), "containerName", container.Name, "operation", operation)
	return nil
}

func (f *fakeManager) AllocatePod(_ klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error {
	f.logger.Info("AllocatePod", "pod", klog.KObj(pod), "operation", operation)
	return nil
}

func (f *fakeManager) AddContainer(_ klog.Logger, pod *v1.Pod, container *v1.Container, containerID string) {
	f.logger.Info("AddContainer", "pod", klog.KObj(pod), "containerName", container.Name, "containerID", containerID)
}

func (f *fakeManager) RemoveContainer(_ klog.Logger, containerID string) error {
	f.logger.Info("RemoveContainer", "containerID", containerID)
	return nil
}

func (f *fakeManager) GetTopologyHints(klog.Logger, *v1.Pod, *v1.Container, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return map[string][]topologymanager.TopologyHint{}
}

func (f *fakeManager) GetPodTopologyHints(klog.Logger, *v1.Pod, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return map[string][]topologymanager.TopologyHint{}
}

func (f *fakeManager) State() state.Reader { return &state.Content{} }

func (f *fakeManager) GetExclusiveCPUs(string, string) cpuset.CPUSet { return cpuset.New() }

func (f *fakeManager) GetPodCPUs(string) cpuset.CPUSet { return cpuset.New() }

func (f *fakeManager) GetAllocatableCPUs() cpuset.CPUSet { return cpuset.New() }

func (f *fakeManager) GetCPUAffinity(string, string) cpuset.CPUSet { return cpuset.New() }

func (f *fakeManager) GetAllCPUs() cpuset.CPUSet { return cpuset.New() }

func (f *fakeManager) GetResourceIsolationLevel(*v1.Pod, *v1.Container) cmqos.ResourceIsolationLevel {
	return cmqos.ResourceIsolationContainer
}

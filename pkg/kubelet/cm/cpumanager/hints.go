// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// HoldsPod implements topologymanager.AllocationHolder. A pod that ran before
// the kubelet started has what it has, on record or not, and whatever the policy
// is: it may have devices.
func (m *manager) HoldsPod(logger klog.Logger, pod *v1.Pod) (needs, holds bool) {
	if m.node == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		ran := m.runningBefore[string(pod.UID)]
		return ran, ran
	}
	plan, err := readPod(pod)
	if err != nil {
		return true, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirm(logger, plan)
	if m.node.HasRecord(m.view(), plan) || m.runningBefore[plan.UID] {
		return true, true
	}
	return plan.NeedsCPUs(m.affinity.Name() == topologymanager.PodTopologyScope), false
}

// GetTopologyHints implements Manager.
func (m *manager) GetTopologyHints(logger klog.Logger, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.hints(logger, pod, operation, func(s cpuplan.State, plan podplan.Pod) (numa.Resource, bool) {
		wanted, _ := plan.Container(container.Name)
		return m.node.ContainerHints(s, plan, wanted)
	})
}

// GetPodTopologyHints implements Manager.
func (m *manager) GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.hints(logger, pod, operation, func(s cpuplan.State, plan podplan.Pod) (numa.Resource, bool) {
		return m.node.PodHints(s, plan)
	})
}

func (m *manager) hints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation, hints func(cpuplan.State, podplan.Pod) (numa.Resource, bool)) map[string][]topologymanager.TopologyHint {
	if m.node == nil || operation != lifecycle.AddOperation {
		return nil
	}
	plan, err := readPod(pod)
	if err != nil {
		// Allocating says what is wrong; here it cannot be had.
		return map[string][]topologymanager.TopologyHint{cpuplan.ResourceName: {}}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeStale(logger)
	m.confirm(logger, plan)
	resource, ok := hints(m.view(), plan)
	if !ok {
		return nil
	}
	list := make([]topologymanager.TopologyHint, len(resource.Hints))
	for i, hint := range resource.Hints {
		list[i] = topologymanager.HintFromNUMA(hint)
	}
	return map[string][]topologymanager.TopologyHint{cpuplan.ResourceName: list}
}

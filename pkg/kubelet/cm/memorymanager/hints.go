// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// GetTopologyHints implements Manager.
func (m *manager) GetTopologyHints(logger klog.Logger, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.hints(logger, pod, operation, func(host memplan.Host, asked podplan.Pod) []numa.Resource {
		return host.ContainerHints(asked, container.Name)
	})
}

// GetPodTopologyHints implements Manager.
func (m *manager) GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.hints(logger, pod, operation, memplan.Host.PodHints)
}

func (m *manager) hints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation, ask func(memplan.Host, podplan.Pod) []numa.Resource) map[string][]topologymanager.TopologyHint {
	if !m.allocates(operation) {
		return nil
	}
	logger = klog.LoggerWithValues(logger, "pod", klog.KObj(pod))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collect(logger, string(pod.UID))
	asked, err := specOf(pod)
	if err != nil {
		// Which resources are asked for is not known; the allocation will fail
		// with the reason.
		logger.Error(err, "Cannot give hints")
		return nil
	}
	resources := ask(m.host(asked.UID), asked)
	if unsatisfiable(resources) && m.runningBefore[asked.UID] {
		logger.Info("Pod ran before the kubelet started and does not fit; it is admitted without memory of its own")
		return nil
	}
	return hintMap(resources)
}

func unsatisfiable(resources []numa.Resource) bool {
	return slices.ContainsFunc(resources, func(r numa.Resource) bool { return !r.NoPreference && len(r.Hints) == 0 })
}

// hintMap turns hints into the kubelet's form: no entries for nothing asked, a
// nil list for no preference, an empty list for what cannot be had.
func hintMap(resources []numa.Resource) map[string][]topologymanager.TopologyHint {
	if len(resources) == 0 {
		return nil
	}
	result := make(map[string][]topologymanager.TopologyHint, len(resources))
	var list []topologymanager.TopologyHint
	for i, r := range resources {
		switch {
		case r.NoPreference:
			result[r.Name] = nil
			continue
		case i > 0 && len(list) > 0 && len(r.Hints) == len(list) && &r.Hints[0] == &resources[i-1].Hints[0]:
			list = slices.Clone(list) // all resources of a request have the same hints
		default:
			list = make([]topologymanager.TopologyHint, len(r.Hints))
			for j, hint := range r.Hints {
				list[j] = topologymanager.HintFromNUMA(hint)
			}
		}
		result[r.Name] = list
	}
	return result
}

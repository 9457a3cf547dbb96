// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// GetResourceIsolationLevel implements Manager. The kubelet lifts the CFS quota
// of a container whose level is "container". A container in the pool of a pod
// with recorded pod CPUs keeps its quota even after the gate was turned off.
func (m *manager) GetResourceIsolationLevel(pod *v1.Pod, container *v1.Container) cmqos.ResourceIsolationLevel {
	return cmqos.ResourceIsolationLevel(isolationLevel(m.content(), pod, container))
}

func isolationLevel(content *state.Content, pod *v1.Pod, container *v1.Container) podplan.Isolation {
	_, recorded := content.GetCPUSet(string(pod.UID), container.Name)
	_, whole := content.GetPodCPUSet(string(pod.UID))
	budget := whole || podLevelManagers() && resourcehelper.IsPodLevelResourcesSet(pod)
	return podplan.IsolationOf(recorded, budget, podplan.HasCPUSlice(container))
}

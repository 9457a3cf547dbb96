// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
)

// GetResourceIsolationLevel implements Manager. The kubelet lifts the CFS quota
// of a container whose level is "container". A container in the pool of a pod
// with recorded pod CPUs keeps its quota even after the gate was turned off.
func (m *manager) GetResourceIsolationLevel(pod *v1.Pod, container *v1.Container) cmqos.ResourceIsolationLevel {
	return isolationLevel(m.content(), pod, container)
}

func isolationLevel(content *state.Content, pod *v1.Pod, container *v1.Container) cmqos.ResourceIsolationLevel {
	if _, ok := content.GetCPUSet(string(pod.UID), container.Name); !ok {
		return cmqos.ResourceIsolationHost
	}
	_, recorded := content.GetPodCPUSet(string(pod.UID))
	podLevel := recorded || podLevelManagers() && resourcehelper.IsPodLevelResourcesSet(pod)
	if podLevel && !hasSlice(container) {
		return cmqos.ResourceIsolationPod
	}
	return cmqos.ResourceIsolationContainer
}

// hasSlice reports whether the container's resources qualify it for exclusive
// CPUs within its pod.
func hasSlice(container *v1.Container) bool {
	limit := container.Resources.Limits[v1.ResourceCPU]
	return cmqos.IsContainerEquivalentQOSGuaranteed(container) && limit.MilliValue()%1000 == 0
}

// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// QOSClass is the pod's QoS class: Guaranteed if its CPU and memory requests equal
// its limits, BestEffort if it has neither. The budget decides alone where there is
// one and the gate PodLevelResources is on, else all containers.
func QOSClass(pod *v1.Pod, podLevelResources bool) v1.PodQOSClass {
	var stated []v1.ResourceRequirements
	if podLevelResources && resourcehelper.IsPodLevelResourcesSet(pod) {
		stated = append(stated, *pod.Spec.Resources)
	} else {
		for c := range Containers(pod) {
			stated = append(stated, c.Resources)
		}
	}
	guaranteed, bestEffort := len(stated) > 0, true
	for _, r := range stated {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			guaranteed = guaranteed && !request.IsZero() && request.Equal(limit)
			bestEffort = bestEffort && request.IsZero() && limit.IsZero()
		}
	}
	switch {
	case guaranteed:
		return v1.PodQOSGuaranteed
	case bestEffort:
		return v1.PodQOSBestEffort
	}
	return v1.PodQOSBurstable
}

// Containers yields the pod's init containers and then its others.
func Containers(pod *v1.Pod) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

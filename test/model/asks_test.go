// SPDX-License-Identifier: Apache-2.0

package model

import (
	v1 "k8s.io/api/core/v1"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/test/simnode"
)

// asks is what a pod is to get under some settings, by the plain rules: who gets
// how much, not where.
type asks struct {
	// whole is set for a pod that is allocated as a whole.
	whole bool
	// podCPUs and podMemory are the budget of such a pod.
	podCPUs   int
	podMemory map[string]uint64
	// cpus are the exclusive CPUs of containers, memory their own memory. In a pod
	// that is allocated as a whole, other containers share.
	cpus   map[string]int
	memory map[string]map[string]uint64
}

// asksOf reads the pod. Its CPUs and its memory are judged apart.
func asksOf(pod *v1.Pod, s simnode.Settings) asks {
	a := asks{cpus: map[string]int{}, memory: map[string]map[string]uint64{}}
	budget := pod.Spec.Resources != nil
	if v1qos.GetPodQOS(pod) != v1.PodQOSGuaranteed || budget && !s.Gate {
		return a
	}
	a.whole = budget && s.Scope == topologymanager.PodTopologyScope && s.TopologyPolicy != topologymanager.PolicyNone
	if a.whole {
		a.podCPUs = whole(pod.Spec.Resources.Limits)
		a.podMemory = memory(pod.Spec.Resources.Requests)
	}
	for c := range simnode.Containers(pod) {
		if !guaranteed(c) {
			continue
		}
		if n := whole(c.Resources.Limits); n > 0 && (!a.whole || a.podCPUs > 0) {
			a.cpus[c.Name] = n
		}
		a.memory[c.Name] = memory(c.Resources.Requests)
	}
	return a
}

// guaranteed reports whether the container by itself is Guaranteed.
func guaranteed(c *v1.Container) bool {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
		if request.IsZero() || request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

func whole(list v1.ResourceList) int {
	if milli := list.Cpu().MilliValue(); milli%1000 == 0 {
		return int(milli / 1000)
	}
	return 0
}

func memory(list v1.ResourceList) map[string]uint64 {
	all := map[string]uint64{}
	for name, quantity := range list {
		if isMemory(name) && !quantity.IsZero() {
			all[string(name)] = uint64(quantity.Value())
		}
	}
	return all
}

func isMemory(name v1.ResourceName) bool {
	return name == v1.ResourceMemory || len(name) > 10 && name[:10] == "hugepages-"
}

// standardInit is the names of the init containers that end before others start.
func standardInit(pod *v1.Pod) map[string]bool {
	names := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy == nil {
			names[c.Name] = true
		}
	}
	return names
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"

	"github.com/podslice/podslice/test/simnode"
)

// checkResize judges the answer to a resize. One that would change what is on record
// of the pod is infeasible; one of a pod that neither has nor gets anything of its
// own, or that changes nothing, is not.
func (w *world) checkResize(e event, before past) error {
	if !before.files.equal(w.files) {
		return wrong("resize", "a resize writes to the state files")
	}
	n, result := w.node(), w.runner.Result
	pod := before.resized
	resized := pod
	if e.input != "" {
		var err error
		if resized, err = simnode.ParsePod(e.input); err != nil {
			return wrong("script", "%v", err)
		}
	}
	h := w.held[pod.Name]
	change := staticCPU(n.Settings) && changesCPUs(pod, resized, h.cpus) || staticMemory(n.Settings) && changesMemory(pod, resized, h.memory)
	if change {
		w.seen["resizes that change something"]++
	}
	switch {
	case result.Admit && change:
		return wrong("resize", "pod %s has %s %s, and may be resized to\n%s", pod.Name, h.cpus, h.memory, e.input)
	case !result.Admit && result.Reason != v1.PodReasonInfeasible:
		return wrong("resize", "pod %s is not resized for the reason %s: %s", pod.Name, result.Reason, result.Message)
	case !result.Admit && (equality.Semantic.DeepEqual(pod.Spec, resized.Spec) || !isGuaranteed(pod) && !isGuaranteed(resized)):
		return wrong("resize", "pod %s has %s %s, and is not resized: %s", pod.Name, h.cpus, h.memory, result.Message)
	}
	return nil
}

func isGuaranteed(pod *v1.Pod) bool { return v1qos.GetPodQOS(pod) == v1.PodQOSGuaranteed }

// changesCPUs reports whether the pod would ask for another number of CPUs than
// before, and than it has of its own.
func changesCPUs(pod, resized *v1.Pod, h cpuHolding) bool {
	if !h.pod.IsEmpty() && budget(pod, v1.ResourceCPU) != budget(resized, v1.ResourceCPU) && budget(resized, v1.ResourceCPU) != int64(h.pod.Size())*1000 {
		return true
	}
	init, before, after := standardInit(pod), own(pod), own(resized)
	for name, cpus := range h.containers {
		if before[name] > 0 && before[name] != after[name] && after[name] != cpus.Size() && !init[name] {
			return true
		}
	}
	return false
}

// changesMemory is changesCPUs for the budget of memory.
func changesMemory(pod, resized *v1.Pod, h memoryHolding) bool {
	sums := map[v1.ResourceName]int64{}
	for _, b := range h.pod {
		sums[b.Type] += int64(b.Size) * 1000
	}
	for name, size := range sums {
		if budget(pod, name) != budget(resized, name) && budget(resized, name) != size {
			return true
		}
	}
	return false
}

// budget is how much of a resource is in the pod's budget, in thousandths.
func budget(pod *v1.Pod, name v1.ResourceName) int64 {
	if pod.Spec.Resources == nil {
		return 0
	}
	quantity := pod.Spec.Resources.Requests[name]
	return quantity.MilliValue()
}

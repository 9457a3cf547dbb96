// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// podRequest is what a pod asks for, and whether as a whole.
type podRequest struct {
	pod   podplan.Pod
	whole bool
}

// countAllocated counts what the pod has now and did not have before: by container
// in a pod that was given its memory as a whole, the ones that share included, and
// otherwise by container and kind of memory. That is how the kubelet has always
// counted. What the pod had is not counted again, be it that a container of a
// recorded pod is added to it.
func (a podRequest) countAllocated(before, after memplan.PodRecord) {
	for _, c := range a.pod.Containers {
		_, has := after.Containers[c.Name]
		if _, had := before.Containers[c.Name]; had || !has {
			continue
		}
		request := a.pod.ExclusiveMemory(c)
		source, allocations := metrics.ResourceManagerPod, 1
		assignment := metrics.ResourceManagerSharedPod
		switch {
		case !after.Whole():
			source, allocations = metrics.ResourceManagerNode, len(request)
			assignment = metrics.ResourceManagerExclusiveNode
		case len(request) > 0:
			assignment = metrics.ResourceManagerExclusivePod
		}
		// The call itself has counted as a request already.
		if a.whole && len(request) > 0 {
			metrics.MemoryManagerPinningRequestTotal.Inc()
		}
		metrics.ResourceManagerAllocationsTotal.WithLabelValues(metrics.ResourceManagerMemory, source).Add(float64(allocations))
		metrics.ResourceManagerContainerAssignments.WithLabelValues(metrics.ResourceManagerMemory, assignment).Inc()
	}
}

// countFailure counts an allocation that was refused, or could not be recorded,
// for a pod that has before.
func (a podRequest) countFailure(before memplan.PodRecord) {
	source := metrics.ResourceManagerNode
	if before.Whole() || a.whole && len(before.Containers) == 0 {
		source = metrics.ResourceManagerPod
	}
	metrics.MemoryManagerPinningErrorsTotal.Inc()
	metrics.ResourceManagerAllocationErrorsTotal.WithLabelValues(metrics.ResourceManagerMemory, source).Inc()
}

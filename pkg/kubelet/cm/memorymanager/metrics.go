// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// counts is what one allocation adds to the metrics once it is published.
type counts struct {
	// source is metrics.ResourceManagerNode or metrics.ResourceManagerPod.
	source string
	// pinnings are pinning requests beyond the one of the call itself.
	pinnings int
	// allocations are counted by resource for containers and by container for
	// pods; that is how the kubelet has always counted.
	allocations int
	// assignments are the containers by kind of assignment.
	assignments map[string]int
}

func countContainer(request podplan.Memory) counts {
	return counts{
		source:      metrics.ResourceManagerNode,
		allocations: len(request),
		assignments: map[string]int{metrics.ResourceManagerExclusiveNode: 1},
	}
}

func countPod(pod podplan.Pod) counts {
	c := counts{source: metrics.ResourceManagerPod, allocations: len(pod.Containers), assignments: map[string]int{}}
	for _, container := range pod.Containers {
		exclusive := len(pod.ExclusiveMemory(container)) > 0
		kind := metrics.ResourceManagerSharedPod
		if exclusive {
			kind = metrics.ResourceManagerExclusivePod
		}
		c.assignments[kind]++
		if exclusive || container.Kind != podplan.App {
			c.pinnings++
		}
	}
	return c
}

// add joins what one admission takes in several calls.
func (c *counts) add(o counts) {
	if c.assignments == nil {
		c.assignments = map[string]int{}
	}
	c.source = o.source
	c.pinnings += o.pinnings
	c.allocations += o.allocations
	for kind, n := range o.assignments {
		c.assignments[kind] += n
	}
}

func (c *counts) publish() {
	if c.source == "" {
		return
	}
	metrics.MemoryManagerPinningRequestTotal.Add(float64(c.pinnings))
	metrics.ResourceManagerAllocationsTotal.WithLabelValues(metrics.ResourceManagerMemory, c.source).Add(float64(c.allocations))
	for kind, n := range c.assignments {
		metrics.ResourceManagerContainerAssignments.WithLabelValues(metrics.ResourceManagerMemory, kind).Add(float64(n))
	}
}

// fail counts the allocation as refused.
func (c *counts) fail() {
	if c.source == "" {
		return
	}
	metrics.MemoryManagerPinningErrorsTotal.Inc()
	metrics.ResourceManagerAllocationErrorsTotal.WithLabelValues(metrics.ResourceManagerMemory, c.source).Inc()
}

// SPDX-License-Identifier: Apache-2.0

package podplan

import v1 "k8s.io/api/core/v1"

// Isolation is from whom a container's share of a resource is kept apart.
type Isolation string

// The values are the kubelet's.
const (
	// IsolatedContainer: what the container has is its own.
	IsolatedContainer Isolation = "container"
	// IsolatedPod: it runs in the pod shared pool.
	IsolatedPod Isolation = "pod"
	// IsolatedHost: it runs in the node shared pool.
	IsolatedHost Isolation = "host"
)

// IsolationOf tells the isolation level. Recorded says whether the container has
// the resource on record, budget whether its pod was or would be allocated as a
// whole, and slice whether what the container asks for qualifies it for a part of
// its own. Whatever has an entry in a pod without a budget has it for itself.
func IsolationOf(recorded, budget, slice bool) Isolation {
	switch {
	case !recorded:
		return IsolatedHost
	case budget && !slice:
		return IsolatedPod
	}
	return IsolatedContainer
}

// HasCPUSlice reports whether the container's resources qualify it for exclusive
// CPUs within its pod.
func HasCPUSlice(c *v1.Container) bool {
	limit := c.Resources.Limits[v1.ResourceCPU]
	return isGuaranteed(c) && limit.MilliValue()%1000 == 0
}

// HasMemorySlice is HasCPUSlice for memory, of which fractions do not matter.
func HasMemorySlice(c *v1.Container) bool { return isGuaranteed(c) }

// NeedsCPUs reports whether the pod needs CPUs for itself. Whole is set where pods
// with a budget are allocated as a whole.
func (p Pod) NeedsCPUs(whole bool) bool {
	if p.Budget != nil && whole {
		return p.BudgetCPUs() > 0
	}
	for _, c := range p.Containers {
		if p.ExclusiveCPUs(c) > 0 {
			return true
		}
	}
	return false
}

// NeedsMemory is NeedsCPUs for memory and hugepages.
func (p Pod) NeedsMemory(whole bool) bool {
	if p.Budget != nil && whole {
		return len(p.BudgetMemory()) > 0
	}
	for _, c := range p.Containers {
		if len(p.ExclusiveMemory(c)) > 0 {
			return true
		}
	}
	return false
}

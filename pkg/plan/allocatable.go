// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Amounts are what is requested, or can be. Memory and Scalars, which are
// hugepages by resource name, are bytes.
type Amounts struct {
	Pods, MilliCPU, Memory int64
	Scalars                map[string]int64
}

func (a Amounts) plus(b Amounts) Amounts {
	sum := Amounts{Pods: a.Pods + b.Pods, MilliCPU: a.MilliCPU + b.MilliCPU, Memory: a.Memory + b.Memory, Scalars: maps.Clone(a.Scalars)}
	for name, size := range b.Scalars {
		if sum.Scalars == nil {
			sum.Scalars = map[string]int64{}
		}
		sum.Scalars[name] += size
	}
	return sum
}

func (a Amounts) minus(b Amounts) Amounts {
	negative := Amounts{Pods: -b.Pods, MilliCPU: -b.MilliCPU, Memory: -b.Memory, Scalars: map[string]int64{}}
	for name, size := range b.Scalars {
		negative.Scalars[name] = -size
	}
	return a.plus(negative)
}

// Requests is what the pod requests of the node: its budget where it has one, else
// the most that its containers request at any moment, and its overhead.
func (n Node) Requests(pod *v1.Pod) Amounts {
	// A copy, since PodRequests may add the overhead to the pod's own requests.
	a := AmountsOf(resourcehelper.PodRequests(pod.DeepCopy(), resourcehelper.PodResourcesOptions{SkipPodLevelResources: !n.PodLevelResources}))
	a.Pods = 1
	return a
}

// Unchecked lists the resources that the pod requests and of which it is not known
// what the node has.
func Unchecked(pod *v1.Pod) []string {
	var names []string
	for name := range resourcehelper.PodRequests(pod.DeepCopy(), resourcehelper.PodResourcesOptions{}) {
		if name != v1.ResourceCPU && name != v1.ResourceMemory && !strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}

// InsufficientError refuses a pod that requests more than the other pods leave of
// what the node has to allocate. CPUs are thousandths, memory is bytes.
type InsufficientError struct {
	Resource                  string
	Requested, Used, Capacity int64
}

// Type is the reason in the pod's status. It and the text are the kubelet's.
func (e *InsufficientError) Type() string { return "OutOf" + e.Resource }

func (e *InsufficientError) Error() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", e.Resource, e.Requested, e.Used, e.Capacity)
}

// fits is nil if the node has what the pod requests, beside the others.
func (n Node) fits(wants Amounts) error {
	has, used := n.Allocatable, n.requested
	if used.Pods+1 > has.Pods {
		return &InsufficientError{"pods", 1, used.Pods, has.Pods}
	}
	if wants.MilliCPU > 0 && wants.MilliCPU > has.MilliCPU-used.MilliCPU {
		return &InsufficientError{"cpu", wants.MilliCPU, used.MilliCPU, has.MilliCPU}
	}
	if wants.Memory > 0 && wants.Memory > has.Memory-used.Memory {
		return &InsufficientError{"memory", wants.Memory, used.Memory, has.Memory}
	}
	for _, name := range slices.Sorted(maps.Keys(wants.Scalars)) {
		if size := wants.Scalars[name]; size > 0 && size > has.Scalars[name]-used.Scalars[name] {
			return &InsufficientError{name, size, used.Scalars[name], has.Scalars[name]}
		}
	}
	return nil
}

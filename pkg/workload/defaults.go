// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Default adds to the pod what the API server adds to its resources, and says what
// that is:
//
//   - A container requests what it has as a limit and does not request.
//   - A budget that has anything at all has as hugepage limits those of the
//     containers together; as CPU and memory requests those of the containers
//     together and, where these have none, its limits; and as limits those of the
//     containers together, or its request if that is more, for a resource that all
//     containers limit.
//
// What is finer than a thousandth is rounded up.
func Default(pod *v1.Pod) []string {
	var d defaulter
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			round(r.Requests)
			round(r.Limits)
			r.Requests = d.missing(fmt.Sprintf("container %s", list[i].Name), "requests", r.Requests, r.Limits, "its limits", anyResource)
		}
	}
	if b := pod.Spec.Resources; b != nil && len(b.Requests)+len(b.Limits) > 0 {
		round(b.Requests)
		round(b.Limits)
		d.budget(pod, b)
	}
	round(pod.Spec.Overhead)
	return d.done
}

// round rounds up, and writes amounts as numbers. An amount such as 1.5Gi is read as
// a pointer to one, and the library for pod requests adds the overhead to that, in
// the pod itself.
func round(list v1.ResourceList) {
	for name, q := range list {
		q.RoundUp(resource.Milli)
		if whole, ok := q.AsInt64(); ok {
			q = *resource.NewQuantity(whole, q.Format)
		} else if q.CmpInt64(math.MaxInt64/1000) < 0 {
			q = *resource.NewMilliQuantity(q.MilliValue(), q.Format)
		}
		list[name] = q
	}
}

type defaulter struct{ done []string }

func (d *defaulter) budget(pod *v1.Pod, b *v1.ResourceRequirements) {
	const who = "the pod"
	limits := resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
	requests := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	b.Limits = d.missing(who, "limits", b.Limits, limits, "the limits of its containers", func(name v1.ResourceName) bool {
		_, requested := b.Requests[name]
		return isHugepages(name) && !requested
	})
	b.Requests = d.missing(who, "requests", b.Requests, requests, "the requests of its containers", func(name v1.ResourceName) bool {
		return name == v1.ResourceCPU || name == v1.ResourceMemory
	})
	b.Requests = d.missing(who, "requests", b.Requests, b.Limits, "its limits", resourcehelper.IsSupportedPodLevelResource)
	// Its request, where that is more, so that it is no more than the limit.
	for name, request := range b.Requests {
		if limit, ok := limits[name]; ok && request.Cmp(limit) > 0 {
			limits[name] = request
		}
	}
	b.Limits = d.missing(who, "limits", b.Limits, limits, "the limits of its containers", func(name v1.ResourceName) bool {
		_, requested := b.Requests[name]
		return requested && resourcehelper.IsSupportedPodLevelResource(name) && limitedByAll(pod, name)
	})
}

func limitedByAll(pod *v1.Pod, name v1.ResourceName) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if _, ok := c.Resources.Limits[name]; !ok {
				return false
			}
		}
	}
	return true
}

func anyResource(v1.ResourceName) bool { return true }

func isHugepages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// missing adds to the list what it lacks of from and may have.
func (d *defaulter) missing(who, what string, list, from v1.ResourceList, whose string, may func(v1.ResourceName) bool) v1.ResourceList {
	var added []string
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, there := list[name]; there || !may(name) {
			continue
		}
		if list == nil {
			list = v1.ResourceList{}
		}
		list[name] = from[name].DeepCopy()
		q := from[name]
		added = append(added, fmt.Sprintf("%s %s", name, q.String()))
	}
	if len(added) > 0 {
		d.done = append(d.done, fmt.Sprintf("%s: %s from %s: %s", who, what, whose, strings.Join(added, ", ")))
	}
	return list
}

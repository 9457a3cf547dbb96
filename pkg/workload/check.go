// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Check fails for a pod with resources that the API server refuses. Each error names
// the field and both sides.
func Check(pod *v1.Pod) error {
	var c checker
	if len(pod.Spec.Containers) == 0 {
		c.add("spec.containers", "there must be one at least")
	}
	names := map[string]string{}
	for _, list := range []struct {
		path       string
		containers []v1.Container
		// most is the budget that is no less than any of their limits.
		most *v1.ResourceRequirements
	}{{"spec.initContainers", pod.Spec.InitContainers, nil}, {"spec.containers", pod.Spec.Containers, pod.Spec.Resources}} {
		for i, container := range list.containers {
			path := fmt.Sprintf("%s[%d]", list.path, i)
			if container.Name == "" {
				c.add(path+".name", "it is missing")
			} else if other, ok := names[container.Name]; ok {
				c.add(path+".name", "it is %q, as that of %s", container.Name, other)
			}
			names[container.Name] = path
			c.requirements(path+".resources", container.Resources)
			if list.most != nil {
				c.withinBudget(path+".resources", container.Resources, *list.most)
			}
		}
	}
	if pod.Spec.Resources != nil {
		c.budget(pod)
	}
	if len(c.errs) == 0 {
		return nil
	}
	return errors.New(strings.Join(c.errs, "; "))
}

type checker struct{ errs []string }

func (c *checker) add(path, format string, args ...any) {
	c.errs = append(c.errs, path+": "+fmt.Sprintf(format, args...))
}

// requirements holds requests and limits against each other.
func (c *checker) requirements(path string, r v1.ResourceRequirements) {
	for _, side := range []struct {
		name string
		list v1.ResourceList
	}{{"requests", r.Requests}, {"limits", r.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(side.list)) {
			if q := side.list[name]; q.Sign() < 0 {
				c.add(fmt.Sprintf("%s.%s[%s]", path, side.name, name), "it is %s, and must not be negative", q.String())
			}
		}
	}
	if has(r, isHugepages) && !has(r, func(name v1.ResourceName) bool { return name == v1.ResourceCPU || name == v1.ResourceMemory }) {
		c.add(path, "hugepages need cpu or memory beside them")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		at := fmt.Sprintf("%s.requests[%s]", path, name)
		switch {
		case !limited && isHugepages(name):
			c.add(at, "it is %s, and hugepages need a limit, too", request.String())
		case !limited:
		case isHugepages(name) && request.Cmp(limit) != 0:
			c.add(at, "it is %s, and of hugepages must be the limit, %s", request.String(), limit.String())
		case request.Cmp(limit) > 0:
			c.add(at, "it is %s, more than the limit, %s", request.String(), limit.String())
		}
	}
}

func has(r v1.ResourceRequirements, is func(v1.ResourceName) bool) bool {
	for _, list := range []v1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			if is(name) {
				return true
			}
		}
	}
	return false
}

// withinBudget holds a container's limits against the pod's. Those of init containers
// the API server does not look at.
func (c *checker) withinBudget(path string, r, budget v1.ResourceRequirements) {
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		limit := r.Limits[name]
		if most, ok := budget.Limits[name]; ok && limit.Cmp(most) > 0 {
			c.add(fmt.Sprintf("%s.limits[%s]", path, name), "it is %s, more than the limit of the pod, %s", limit.String(), most.String())
		}
	}
}

// budget holds what a pod states for itself against what its containers do.
func (c *checker) budget(pod *v1.Pod) {
	const path = "spec.resources"
	b := *pod.Spec.Resources
	if pod.Spec.OS != nil && pod.Spec.OS.Name == v1.Windows {
		c.add(path, "it must not be there for a pod with the OS %s", pod.Spec.OS.Name)
	}
	if len(b.Claims) > 0 {
		c.add(path+".claims", "they must not be there for a pod as a whole")
	}
	for _, side := range []struct {
		name string
		list v1.ResourceList
	}{{"requests", b.Requests}, {"limits", b.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(side.list)) {
			if !resourcehelper.IsSupportedPodLevelResource(name) {
				c.add(fmt.Sprintf("%s.%s[%s]", path, side.name, name), "a pod as a whole can have cpu, memory and hugepages only")
			}
		}
	}
	c.requirements(path, b)
	requests := resourcehelper.AggregateContainerRequests(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		request, sum := b.Requests[name], requests[name]
		if _, ok := b.Requests[name]; ok && sum.Cmp(request) > 0 {
			c.add(fmt.Sprintf("%s.requests[%s]", path, name), "it is %s, less than the containers request together, %s", request.String(), readable(sum))
		}
	}
	limits := resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		limit, sum := b.Limits[name], limits[name]
		if _, ok := b.Limits[name]; ok && isHugepages(name) && sum.Cmp(limit) > 0 {
			c.add(fmt.Sprintf("%s.limits[%s]", path, name), "it is %s, less than the containers have as limits together, %s", limit.String(), readable(sum))
		}
	}
}

// readable writes a quantity without thousandths of what is large.
func readable(q resource.Quantity) string {
	if q.Value() >= 1<<20 {
		return resource.NewQuantity(q.Value(), q.Format).String()
	}
	return q.String()
}

// SPDX-License-Identifier: Apache-2.0

// Package podtext is a short way to write pods, for tests whose subject they are.
package podtext

import (
	"fmt"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Containers is the pod's init containers and then its others, in the order of
// the spec.
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

// Ephemeral is the pod's ephemeral containers, as the kubelet hands them to the
// managers. They take no part in an admission.
func Ephemeral(pod *v1.Pod) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for i := range pod.Spec.EphemeralContainers {
			c := v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(&c) {
				return
			}
		}
	}
}

// Parse reads a pod as scripts write it: NAME and its budget, as in
// "db cpu=8 memory=16Gi", then a line for each container, "init|sidecar|app NAME
// [cpu=Q ...]" or "ephemeral NAME". Amounts are requests and limits, "cpu=Q<Q" has a request and a
// higher limit, "cpu=Q<" no limit and "cpu=<Q" no request.
func Parse(text string) (*v1.Pod, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	head := strings.Fields(lines[0])
	if len(head) == 0 {
		return nil, fmt.Errorf("pod %q has no name", text)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: head[0], Namespace: "default", UID: types.UID("uid-" + head[0])}}
	if len(head) > 1 {
		budget, err := parseResources(head[1:])
		if err != nil {
			return nil, err
		}
		pod.Spec.Resources = &budget
	}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) < 2 {
			return nil, fmt.Errorf("line %q: want a kind of container and a name", line)
		}
		resources, err := parseResources(f[2:])
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		c := v1.Container{Name: f[1], Resources: resources}
		switch f[0] {
		case "sidecar":
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			fallthrough
		case "init":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case "app":
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		case "ephemeral":
			if len(f) > 2 {
				return nil, fmt.Errorf("line %q: an ephemeral container cannot ask for anything", line)
			}
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: f[1]},
			})
		default:
			return nil, fmt.Errorf("line %q: not a kind of container", line)
		}
	}
	return pod, nil
}

func parseResources(fields []string) (v1.ResourceRequirements, error) {
	var all v1.ResourceRequirements
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if !ok {
			return all, fmt.Errorf("%q: want name=amount", f)
		}
		request, limit, differ := strings.Cut(value, "<")
		if !differ {
			limit = request
		}
		for _, side := range []struct {
			list *v1.ResourceList
			text string
		}{{&all.Requests, request}, {&all.Limits, limit}} {
			if side.text == "" {
				continue
			}
			amount, err := resource.ParseQuantity(side.text)
			if err != nil {
				return all, fmt.Errorf("%q: %w", f, err)
			}
			if *side.list == nil {
				*side.list = v1.ResourceList{}
			}
			(*side.list)[v1.ResourceName(name)] = amount
		}
	}
	return all, nil
}

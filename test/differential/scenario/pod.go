// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is the part that a container plays in its pod's life.
type Kind string

// The kinds, in the words of scripts.
const (
	Init    Kind = "init"
	Sidecar Kind = "sidecar"
	App     Kind = "app"
)

// Container asks for resources. Without MilliCPU and MemoryMiB it states none.
type Container struct {
	Name      string
	Kind      Kind
	MilliCPU  int
	MemoryMiB int
	// Lower is set when the requests are less than the limits.
	Lower bool
}

// Budget is a pod's .spec.resources, requests equal to limits.
type Budget struct{ MilliCPU, MemoryMiB int }

// Pod is a pod: init containers and sidecars first, then the others.
type Pod struct {
	Name       string
	Budget     *Budget
	Containers []Container
}

func list(milli, memory int) v1.ResourceList {
	l := v1.ResourceList{}
	if milli > 0 {
		l[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(milli), resource.DecimalSI)
	}
	if memory > 0 {
		l[v1.ResourceMemory] = *resource.NewQuantity(int64(memory)<<20, resource.BinarySI)
	}
	return l
}

// Spec is the pod as the kubelet has it.
func (p *Pod) Spec() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: "default", UID: types.UID(p.Name)}}
	if p.Budget != nil {
		l := list(p.Budget.MilliCPU, p.Budget.MemoryMiB)
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: l, Limits: l}
	}
	always := v1.ContainerRestartPolicyAlways
	for _, c := range p.Containers {
		container := v1.Container{Name: c.Name}
		if c.MilliCPU > 0 || c.MemoryMiB > 0 {
			container.Resources.Requests = list(c.MilliCPU, c.MemoryMiB)
			container.Resources.Limits = list(c.MilliCPU, c.MemoryMiB)
			if c.Lower {
				container.Resources.Limits = list(c.MilliCPU+1000, c.MemoryMiB+64)
			}
		}
		switch c.Kind {
		case App:
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		case Sidecar:
			container.RestartPolicy = &always
			fallthrough
		default:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		}
	}
	return pod
}

// Guaranteed reports whether the container's own requests equal its limits.
func (c Container) Guaranteed() bool { return c.MilliCPU > 0 && c.MemoryMiB > 0 && !c.Lower }

// Guaranteed reports whether the pod's QoS class is Guaranteed.
func (p *Pod) Guaranteed() bool {
	if p.Budget != nil {
		return p.Budget.MilliCPU > 0 && p.Budget.MemoryMiB > 0
	}
	for _, c := range p.Containers {
		if !c.Guaranteed() {
			return false
		}
	}
	return true
}

// String writes the pod in a line: "p1 budget=4 init i0=2 sidecar s1 app a0=2".
func (p *Pod) String() string {
	var b strings.Builder
	b.WriteString(p.Name)
	if p.Budget != nil {
		fmt.Fprintf(&b, " budget=%s", cpus(p.Budget.MilliCPU))
	}
	for _, c := range p.Containers {
		fmt.Fprintf(&b, " %s %s", c.Kind, c.Name)
		if c.MilliCPU > 0 {
			b.WriteString("=" + cpus(c.MilliCPU))
		}
		if c.Lower {
			b.WriteString("(burstable)")
		}
	}
	return b.String()
}

func cpus(milli int) string {
	return resource.NewMilliQuantity(int64(milli), resource.DecimalSI).String()
}

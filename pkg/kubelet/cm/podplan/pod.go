// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"maps"
	"slices"
	"strings"
)

// Kind is the part that a container plays in its pod's life.
type Kind int

const (
	// StandardInit is an init container that runs to completion before the
	// next container starts.
	StandardInit Kind = iota
	// Sidecar is a restartable init container: it runs until the pod ends.
	Sidecar
	// App is an application container.
	App
)

// String names the kind in the field's terms.
func (k Kind) String() string {
	switch k {
	case StandardInit:
		return "standard init container"
	case Sidecar:
		return "sidecar"
	default:
		return "container"
	}
}

// LongRunning reports whether containers of this kind run until the pod ends.
func (k Kind) LongRunning() bool { return k != StandardInit }

// Memory is an amount of each kind of memory, in bytes, by resource name
// ("memory", "hugepages-2Mi", ...). A resource that is not asked for is absent.
type Memory map[string]uint64

// Container is what one container asks for.
type Container struct {
	Name string
	Kind Kind
	// Guaranteed is set when the container's own CPU and memory requests are
	// not zero and equal its limits.
	Guaranteed bool
	// FixedCPU is set when its CPU request is not zero and equals its limit.
	FixedCPU bool
	// MilliCPU is the CPU request in thousandths of a CPU.
	MilliCPU int64
	// LimitMilliCPU is the CPU limit in thousandths of a CPU, or 0.
	LimitMilliCPU int64
	// Memory holds the memory and hugepage requests.
	Memory Memory
}

// Budget is what a pod states for itself in .spec.resources.
type Budget struct {
	MilliCPU int64
	Memory   Memory
	// Unequal says of CPU and memory which is not requested as it is limited, if the
	// pod is not Guaranteed: "memory is requested (1Gi) and not limited".
	Unequal string
}

// Pod is what a pod asks of the resource managers.
type Pod struct {
	UID string
	// Name is "namespace/name", for messages.
	Name string
	// Managed is unset for a pod that gets nothing exclusive: its QoS class
	// is not Guaranteed, or it states a budget while the gates for that are
	// off.
	Managed bool
	// Facts are those that FromSpec was told.
	Facts Facts
	// Budget is nil for a pod without .spec.resources.
	Budget *Budget
	// Containers are the init containers in spec order, then the application
	// containers in spec order.
	Containers []Container
}

// Container returns the container called name.
func (p Pod) Container(name string) (Container, bool) {
	for _, c := range p.Containers {
		if c.Name == name {
			return c, true
		}
	}
	return Container{}, false
}

// ExclusiveCPUs is how many CPUs the container gets for itself: its request
// when that is a whole number and the container is Guaranteed, else 0.
func (p Pod) ExclusiveCPUs(c Container) int {
	if !p.exclusive(c) {
		return 0
	}
	return wholeCPUs(c.MilliCPU)
}

// ExclusiveMemory is the memory that the container gets for itself; it is
// empty for a container that shares.
func (p Pod) ExclusiveMemory(c Container) Memory {
	if !p.exclusive(c) {
		return nil
	}
	return c.Memory
}

// exclusive reports whether the container may have resources of its own. In a
// pod with a budget the pod's QoS class says nothing about the container.
func (p Pod) exclusive(c Container) bool {
	return p.Managed && (p.Budget == nil || c.Guaranteed)
}

// BudgetCPUs is the pod budget in whole CPUs. It is 0 for a budget with a
// fraction, for which no container of the pod can be exclusive when the pod is
// allocated as a whole.
func (p Pod) BudgetCPUs() int {
	if !p.Managed || p.Budget == nil {
		return 0
	}
	return wholeCPUs(p.Budget.MilliCPU)
}

// BudgetMemory is the pod budget for memory and hugepages.
func (p Pod) BudgetMemory() Memory {
	if !p.Managed || p.Budget == nil {
		return nil
	}
	return p.Budget.Memory
}

// PodCPUs is how many exclusive CPUs the pod needs at once: its budget or,
// without one, the most that its containers hold at any moment of its life.
func (p Pod) PodCPUs() int {
	if p.Budget != nil {
		return p.BudgetCPUs()
	}
	return int(p.peak(func(c Container) uint64 { return uint64(p.ExclusiveCPUs(c)) }))
}

// PodMemory is PodCPUs for memory and hugepages.
func (p Pod) PodMemory() Memory {
	if p.Budget != nil {
		return p.BudgetMemory()
	}
	peaks := Memory{}
	for _, c := range p.Containers {
		for name := range p.ExclusiveMemory(c) {
			if _, done := peaks[name]; !done {
				peaks[name] = p.peak(func(c Container) uint64 { return p.ExclusiveMemory(c)[name] })
			}
		}
	}
	return peaks
}

// peak is the largest sum of demands that run side by side: a standard init
// container beside the sidecars declared before it, or all sidecars beside the
// application containers.
func (p Pod) peak(demand func(Container) uint64) uint64 {
	var sidecars, apps, most uint64
	for _, c := range p.Containers {
		switch c.Kind {
		case StandardInit:
			most = max(most, saturatingAdd(sidecars, demand(c)))
		case Sidecar:
			sidecars = saturatingAdd(sidecars, demand(c))
		case App:
			apps = saturatingAdd(apps, demand(c))
		}
	}
	return max(most, saturatingAdd(sidecars, apps))
}

func wholeCPUs(milli int64) int {
	if milli <= 0 || milli%1000 != 0 {
		return 0
	}
	return int(milli / 1000)
}

// saturatingAdd adds without wrapping: absurd requests stay absurdly large and
// are refused, instead of becoming small ones that fit.
func saturatingAdd(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

func sortedNames(m Memory) []string { return slices.Sorted(maps.Keys(m)) }

func names(containers []Container) string {
	list := make([]string, len(containers))
	for i, c := range containers {
		list[i] = c.Name
	}
	return strings.Join(list, ", ")
}

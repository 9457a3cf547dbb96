// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"maps"
	"math/bits"
	"slices"
)

// Asking returns the pod as it would be if it asked for this much of a resource,
// CPUs or bytes: the container, or the pod as a whole when the name is "". What its
// containers have of their own stays as it is if a budget allows that. If not, it
// becomes smaller by about the same share, in steps of step, but never nothing, since
// a container without anything would be of another kind. Of hugepages it can ask for
// none, and loses them. It is false for what cannot be asked for, and if the pod
// would then be at fault itself.
func (p Pod) Asking(container, resource string, amount, step uint64) (Pod, bool) {
	if amount == 0 && (resource == "cpu" || resource == "memory") {
		return Pod{}, false
	}
	p.Containers = slices.Clone(p.Containers)
	if container != "" {
		i := slices.IndexFunc(p.Containers, func(c Container) bool { return c.Name == container })
		if i < 0 {
			return Pod{}, false
		}
		p.Containers[i] = p.Containers[i].asking(resource, amount)
		return p, true
	}
	before := p.asks(resource)
	if before == 0 || amount > before {
		return Pod{}, false
	}
	if p.Budget == nil {
		p.shrink(resource, amount, before, step)
		return p, p.asks(resource) <= amount
	}
	p.Budget = p.Budget.asking(resource, amount)
	carves := func() bool {
		demand := p.CPUDemand()
		if resource != "cpu" {
			demand = p.MemoryDemand(resource)
		}
		_, err := p.Carve(demand)
		return err == nil
	}
	if amount > 0 && carves() {
		return p, true
	}
	p.shrink(resource, amount, before, step)
	return p, carves()
}

// shrink changes the containers in place, so that they take of amount what they took
// of before. What rounding leaves goes to the largest, if nothing else does.
func (p Pod) shrink(resource string, amount, before, step uint64) {
	largest := -1
	for i, c := range p.Containers {
		own := p.own(c, resource)
		if own == 0 {
			continue
		}
		if largest < 0 || own > p.own(p.Containers[largest], resource) {
			largest = i
		}
		less := scaled(own, amount, before) / step * step
		if less == 0 && amount > 0 {
			less = min(step, own)
		}
		p.Containers[i] = c.asking(resource, less)
	}
	if p.Budget != nil || largest < 0 {
		return
	}
	c := p.Containers[largest]
	own, sum := p.own(c, resource), p.asks(resource)
	switch {
	case sum < amount:
		p.Containers[largest] = c.asking(resource, own+amount-sum)
	case sum-amount < own:
		p.Containers[largest] = c.asking(resource, own-(sum-amount))
	}
}

// asks is what the pod as a whole asks for of the resource, own what the container
// has for itself.
func (p Pod) asks(resource string) uint64 {
	if resource == "cpu" {
		return uint64(p.PodCPUs())
	}
	return p.PodMemory()[resource]
}

func (p Pod) own(c Container, resource string) uint64 {
	if resource == "cpu" {
		return uint64(p.ExclusiveCPUs(c))
	}
	return p.ExclusiveMemory(c)[resource]
}

func (c Container) asking(resource string, amount uint64) Container {
	if resource == "cpu" {
		c.MilliCPU, c.LimitMilliCPU = int64(amount)*1000, int64(amount)*1000
	} else {
		c.Memory = withAmount(c.Memory, resource, amount)
	}
	return c
}

func (b Budget) asking(resource string, amount uint64) *Budget {
	if resource == "cpu" {
		b.MilliCPU = int64(amount) * 1000
	} else {
		b.Memory = withAmount(b.Memory, resource, amount)
	}
	return &b
}

func withAmount(m Memory, resource string, amount uint64) Memory {
	m = maps.Clone(m)
	if m[resource] = amount; amount == 0 {
		delete(m, resource)
	}
	return m
}

// scaled is own*amount/before, which may be too large on the way; amount is at most
// before.
func scaled(own, amount, before uint64) uint64 {
	high, low := bits.Mul64(own, amount)
	if high >= before {
		return amount // own is beyond the budget
	}
	quotient, _ := bits.Div64(high, low, before)
	return quotient
}

// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Demand is one resource's side of a pod that is carved: the budget and what
// each container takes of it, in the resource's own unit (CPUs or bytes).
type Demand struct {
	// Resource is the name of the resource for messages: "cpu", "memory",
	// "hugepages-2Mi", ...
	Resource string
	// Budget is the pod's total.
	Budget uint64
	// Slice is what the container takes for itself; 0 when it takes none.
	Slice func(Container) uint64
	// Shares reports whether the container needs a pool that is not empty.
	Shares func(Container) bool
}

// CPUDemand is the pod's demand for CPUs, in whole CPUs.
func (p Pod) CPUDemand() Demand {
	slice := func(c Container) uint64 { return uint64(p.ExclusiveCPUs(c)) }
	return Demand{
		Resource: "cpu",
		Budget:   uint64(p.BudgetCPUs()),
		Slice:    slice,
		Shares:   func(c Container) bool { return slice(c) == 0 },
	}
}

// MemoryDemand is the pod's demand for one kind of memory, in bytes. Every
// process needs some ordinary memory, so a container without a slice of that
// shares it; hugepages are shared only by containers that ask for them.
func (p Pod) MemoryDemand(resource string) Demand {
	return Demand{
		Resource: resource,
		Budget:   p.BudgetMemory()[resource],
		Slice:    func(c Container) uint64 { return p.ExclusiveMemory(c)[resource] },
		Shares: func(c Container) bool {
			if len(p.ExclusiveMemory(c)) > 0 {
				return false
			}
			return resource == "memory" || c.Memory[resource] > 0
		},
	}
}

// Share is what a container runs on when its pod is carved.
type Share struct {
	Container Container
	// Slice is the size of the container's exclusive slice, or 0 when the
	// container runs in a pool.
	Slice uint64
	// Pool is the size of the pool that a container without a slice runs in.
	Pool uint64
}

// Carve carves the budget by the rules in the package documentation and
// returns a share for each container, in the pod's order. It fails with an
// EmptyPoolError when a container that shares would be left with nothing and
// with an OverBudgetError when the slices exceed the budget.
func (p Pod) Carve(d Demand) ([]Share, error) {
	shares := make([]Share, len(p.Containers))
	var sidecars uint64
	var owners []Container
	for i, c := range p.Containers {
		slice := d.Slice(c)
		shares[i] = Share{Container: c, Slice: slice}
		switch {
		case c.Kind == StandardInit:
			if slice > 0 && slice > d.Budget-sidecars {
				return nil, &OverBudgetError{Demand: d, Slices: append(owners, c)}
			}
			if slice == 0 {
				shares[i].Pool = d.Budget - sidecars
				if d.Shares(c) && shares[i].Pool == 0 {
					return nil, &EmptyPoolError{Demand: d, Slices: owners, Sharing: []Container{c}, Init: true}
				}
			}
		case slice > 0:
			owners = append(owners, c)
			if used := sum(owners, d.Slice); used > d.Budget {
				return nil, p.overflow(d)
			}
			if c.Kind == Sidecar {
				sidecars += slice
			}
		}
	}
	pool := d.Budget - sum(owners, d.Slice)
	var sharing []Container
	for i, c := range p.Containers {
		if !c.Kind.LongRunning() || shares[i].Slice > 0 {
			continue
		}
		shares[i].Pool = pool
		if d.Shares(c) {
			sharing = append(sharing, c)
		}
	}
	if pool == 0 && len(sharing) > 0 {
		return nil, &EmptyPoolError{Demand: d, Slices: owners, Sharing: sharing}
	}
	return shares, nil
}

// overflow names what is wrong with a pod whose long-running slices exceed the
// budget: with a container that shares it is an empty pool, which is how the
// kubelet has always reported it, else it is an excess.
func (p Pod) overflow(d Demand) error {
	var owners, sharing []Container
	for _, c := range p.Containers {
		switch {
		case !c.Kind.LongRunning():
		case d.Slice(c) > 0:
			owners = append(owners, c)
		case d.Shares(c):
			sharing = append(sharing, c)
		}
	}
	if len(sharing) > 0 {
		return &EmptyPoolError{Demand: d, Slices: owners, Sharing: sharing}
	}
	return &OverBudgetError{Demand: d, Slices: owners}
}

// EmptyPoolError refuses a pod whose slices leave nothing for a container that
// shares.
type EmptyPoolError struct {
	Demand Demand
	// Slices are the containers that take the budget, Sharing those that are
	// left with nothing.
	Slices, Sharing []Container
	// Init is set when those left with nothing are standard init containers.
	Init bool
}

// Type is the reason in the pod's status, which is the kubelet's.
func (e *EmptyPoolError) Type() string { return "EmptyPodSharedPoolError" }

// Error starts with the sentence that the kubelet's node e2e tests look for.
func (e *EmptyPoolError) Error() string {
	var sentence string
	plural := e.Demand.Resource
	if plural == "cpu" {
		plural = "cpus"
	}
	if e.Init {
		sentence = fmt.Sprintf("pod rejected, pod has shared init containers but no %s available for them", plural)
	} else {
		left := "memory"
		if e.Demand.Resource == "cpu" {
			left = "cpus"
		}
		sentence = fmt.Sprintf("pod rejected, sum of exclusive container %s requests equals pod budget, leaving no %s for shared containers", e.Demand.Resource, left)
	}
	return fmt.Sprintf("%s: the budget is %s, exclusive slices take %s, nothing is left for %s",
		sentence, e.Demand.amount(e.Demand.Budget), e.Demand.describe(e.Slices), names(e.Sharing))
}

// OverBudgetError refuses a pod whose slices that are held at the same time
// exceed its budget.
type OverBudgetError struct {
	Demand Demand
	Slices []Container
}

func (e *OverBudgetError) Error() string {
	return fmt.Sprintf("pod rejected, exclusive container %s requests exceed the pod budget: the budget is %s, exclusive slices take %s",
		e.Demand.Resource, e.Demand.amount(e.Demand.Budget), e.Demand.describe(e.Slices))
}

// describe lists the slices and their sum: "8 (database=6, proxy=2)".
func (d Demand) describe(slices []Container) string {
	parts := make([]string, len(slices))
	for i, c := range slices {
		parts[i] = fmt.Sprintf("%s=%s", c.Name, d.amount(d.Slice(c)))
	}
	return fmt.Sprintf("%s (%s)", d.amount(sum(slices, d.Slice)), strings.Join(parts, ", "))
}

// amount writes an amount of the resource: "6", "12Gi".
func (d Demand) amount(value uint64) string {
	if d.Resource == "cpu" || value > math.MaxInt64 {
		return strconv.FormatUint(value, 10)
	}
	return resource.NewQuantity(int64(value), resource.BinarySI).String()
}

func sum(containers []Container, amount func(Container) uint64) uint64 {
	var total uint64
	for _, c := range containers {
		total = saturatingAdd(total, amount(c))
	}
	return total
}

// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Amounts is how much of one resource a pod asks for, or has on record: CPUs in
// thousandths, memory and hugepages in bytes.
type Amounts struct {
	// Budget is the pod's own; 0 for a pod that has none of the resource as a
	// whole.
	Budget uint64
	// Containers is what containers have, by name. Where it is what they ask for,
	// it lists the slices only; where it is what is on record, those that share
	// are there with the size of their pool.
	Containers map[string]uint64
}

// CPUAmounts is what the pod asks for of CPUs. A budget with a fraction is in
// it, although the pod has nothing exclusive by it. Whole is set for a pod that is
// allocated as a whole: by such a budget its containers have nothing either.
func (p Pod) CPUAmounts(whole bool) Amounts {
	a := Amounts{Containers: map[string]uint64{}}
	if p.Managed && p.Budget != nil && p.Budget.MilliCPU > 0 {
		a.Budget = uint64(p.Budget.MilliCPU)
	}
	for _, c := range p.Containers {
		if whole && a.Budget%1000 != 0 {
			break
		}
		if cpus := p.ExclusiveCPUs(c); cpus > 0 {
			a.Containers[c.Name] = uint64(cpus) * 1000
		}
	}
	return a
}

// MemoryAmounts is what the pod asks for of each kind of memory.
func (p Pod) MemoryAmounts() map[string]Amounts {
	all := map[string]Amounts{}
	of := func(name string) Amounts {
		if a, ok := all[name]; ok {
			return a
		}
		return Amounts{Containers: map[string]uint64{}}
	}
	for name, size := range p.BudgetMemory() {
		a := of(name)
		a.Budget = size
		all[name] = a
	}
	for _, c := range p.Containers {
		for name, size := range p.ExclusiveMemory(c) {
			a := of(name)
			a.Containers[c.Name] = size
			all[name] = a
		}
	}
	return all
}

// Change is an amount that a resize would change although the resource managers
// cannot follow it while the pod runs.
type Change struct {
	Resource string
	// Container is "" for the pod budget.
	Container string
	// Recorded tells whether From is on record, or only what the pod was
	// admitted with.
	Recorded bool
	From, To uint64
}

func (c Change) String() string {
	of, source := "of the pod budget", "admitted"
	if c.Container != "" {
		of = fmt.Sprintf("of its own for container %q", c.Container)
	}
	if c.Recorded {
		source = "on record"
	}
	return fmt.Sprintf("%s %s: %s %s, %s asked for", c.Resource, of, c.amount(c.From), source, c.amount(c.To))
}

func (c Change) amount(value uint64) string {
	switch {
	case value == 0:
		return "none"
	case c.Resource == "cpu":
		return resource.NewMilliQuantity(int64(value), resource.DecimalSI).String()
	case value > 1<<63-1:
		return strconv.FormatUint(value, 10)
	}
	return resource.NewQuantity(int64(value), resource.BinarySI).String()
}

// CPUChanges is what a resize would change of what the pod has of CPUs: its
// budget, and the slices of its containers; from before, as it was admitted, to
// after, while held is on record. It is empty for a pod that has and gets no
// exclusive CPUs, whatever its budget is, and for a value that comes back to what
// is on record: an earlier kubelet may have let the two come apart. Whole is set
// where pods with a budget are allocated as a whole; what is on record of the pod
// may be from another time.
func CPUChanges(before, after Pod, held Amounts, whole bool) []Change {
	whole = whole && len(held.Containers) == 0
	b, a := before.CPUAmounts(whole), after.CPUAmounts(whole)
	exclusive := func(x Amounts) bool {
		return len(x.Containers) > 0 || x.Budget > 0 && x.Budget%1000 == 0
	}
	if !exclusive(b) && !exclusive(a) && !exclusive(held) {
		return nil
	}
	return changes("cpu", after.Containers, b, a, held)
}

// MemoryChanges is CPUChanges for memory and hugepages, by the names of held and
// of what the pod asks for.
func MemoryChanges(before, after Pod, held map[string]Amounts) []Change {
	b, a := before.MemoryAmounts(), after.MemoryAmounts()
	names := map[string]bool{}
	for _, all := range []map[string]Amounts{b, a, held} {
		for name := range all {
			names[name] = true
		}
	}
	var list []Change
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, changes(name, after.Containers, b[name], a[name], held[name])...)
	}
	return list
}

// changes compares amounts of one resource. A container's record is looked at
// only where it is the container's slice: not where it tells the size of a pool,
// or what later containers have left of an init container's.
func changes(resource string, containers []Container, before, after, held Amounts) []Change {
	var list []Change
	compare := func(container string, from, to, recorded uint64) {
		if to == from || recorded > 0 && to == recorded {
			return
		}
		if recorded > 0 {
			from = recorded
		}
		list = append(list, Change{Resource: resource, Container: container, Recorded: recorded > 0, From: from, To: to})
	}
	compare("", before.Budget, after.Budget, held.Budget)
	for _, c := range containers {
		from, recorded := before.Containers[c.Name], uint64(0)
		if from > 0 && c.Kind.LongRunning() {
			recorded = held.Containers[c.Name]
		}
		compare(c.Name, from, after.Containers[c.Name], recorded)
	}
	return list
}

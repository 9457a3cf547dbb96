// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

var (
	_ placement.Participant  = cpuProvider{}
	_ placement.PodAllocator = cpuProvider{}
	_ placement.Dropper      = cpuProvider{}
	_ placement.Holder       = cpuProvider{}
	_ placement.Reporter     = cpuProvider{}
	_ placement.Trier        = cpuProvider{}
	_ placement.Participant  = memoryProvider{}
	_ placement.PodAllocator = memoryProvider{}
	_ placement.Dropper      = memoryProvider{}
	_ placement.Holder       = memoryProvider{}
	_ placement.Reporter     = memoryProvider{}
	_ placement.Trier        = memoryProvider{}
)

// cpuProvider is the CPU manager in the admission of one pod.
type cpuProvider struct{ *admission }

func (p cpuProvider) Name() string { return "the CPU manager" }

func (p cpuProvider) node() *cpuplan.Node { return p.admission.node.CPUs }

func (p cpuProvider) PodHints() []numa.Resource {
	p.at = ""
	return p.hints(func() (numa.Resource, bool) { return p.node().PodHints(p.cpus, p.cpuAsked) })
}

func (p cpuProvider) ContainerHints(container string) []numa.Resource {
	p.at = container
	return p.hints(func() (numa.Resource, bool) {
		wanted, _ := p.cpuAsked.Container(container)
		return p.node().ContainerHints(p.cpus, p.cpuAsked, wanted)
	})
}

func (p cpuProvider) hints(ask func() (numa.Resource, bool)) []numa.Resource {
	if p.node() == nil {
		return nil
	}
	if p.cpuErr != nil {
		return []numa.Resource{{Name: cpuplan.ResourceName}} // allocating says what is wrong
	}
	if resource, ok := ask(); ok {
		return []numa.Resource{resource}
	}
	return nil
}

func (p cpuProvider) AllocatePod() error {
	return p.allocate(func() (cpuplan.Record, error) {
		return p.node().PlanPod(p.cpus, p.cpuAsked, p.podAffinity())
	})
}

func (p cpuProvider) AllocateContainer(container string) error {
	return p.allocate(func() (cpuplan.Record, error) {
		wanted, ok := p.cpuAsked.Container(container)
		if !ok {
			return cpuplan.Record{}, fmt.Errorf("%q: %w", container, errNoContainer)
		}
		return p.node().PlanContainer(p.cpus, p.cpuAsked, wanted, p.affinity(container))
	})
}

func (p cpuProvider) allocate(plan func() (cpuplan.Record, error)) error {
	if p.node() == nil {
		return nil
	}
	if p.cpuErr != nil {
		return p.cpuErr
	}
	record, err := plan()
	switch {
	case err == nil:
		p.cpus = p.cpus.With(p.uid, record)
	case p.ran():
		return nil // it goes on in the node shared pool
	}
	return err
}

func (p cpuProvider) AllocatesPods() bool { return true }

func (p cpuProvider) Holds() (needs, holds bool) {
	switch {
	case p.node() == nil:
		return p.ran(), p.ran()
	case p.cpuErr != nil:
		return true, false
	case p.node().HasRecord(p.cpus, p.cpuAsked) || p.ran():
		return true, true
	}
	return p.cpuAsked.NeedsCPUs(p.admission.node.whole()), false
}

func (p cpuProvider) Lacks() bool { return p.cpus.Record(p.uid).IsEmpty() }

// Drop does nothing: of a pod that does not run there is no record.
func (p cpuProvider) Drop() {}

func (p cpuProvider) Report(container string) (numa.Report, bool) {
	if p.node() == nil {
		return numa.Report{}, true
	}
	if p.cpuErr != nil {
		return numa.Report{Cause: p.cpuErr.Error()}, true
	}
	var wanted *podplan.Container
	if c, ok := p.cpuAsked.Container(container); ok {
		wanted = &c
	}
	return p.node().Report(p.cpus, p.cpuAsked, wanted), true
}

func (p cpuProvider) Usage() []numa.NodeUsage {
	if p.node() == nil {
		return nil
	}
	return p.node().Usage(p.cpus)
}

func (p cpuProvider) Trial(change numa.Change, affinity func(container string) numa.Hint) (placement.Provider, error) {
	if p.cpuErr != nil || !p.admission.node.cpus.Record(p.uid).IsEmpty() {
		return nil, numa.ErrImpossible
	}
	return cpuplan.NewTrial(p.node(), p.cpus, p.cpuAsked, change, affinity)
}

// A transaction has nothing to do: what is staged becomes the node's if the pod is
// admitted, and is dropped with the admission otherwise.
func (p cpuProvider) Begin()          {}
func (p cpuProvider) Commit() error   { return nil }
func (p cpuProvider) Rollback() error { return nil }

// memoryProvider is the memory manager in the admission of one pod.
type memoryProvider struct{ *admission }

func (p memoryProvider) Name() string { return "the memory manager" }

func (p memoryProvider) static() bool { return p.node.StaticMemory }

func (p memoryProvider) PodHints() []numa.Resource {
	return p.hints(func() []numa.Resource { return p.memory.PodHints(p.memoryAsked) })
}

func (p memoryProvider) ContainerHints(container string) []numa.Resource {
	return p.hints(func() []numa.Resource { return p.memory.ContainerHints(p.memoryAsked, container) })
}

func (p memoryProvider) hints(ask func() []numa.Resource) []numa.Resource {
	if !p.static() || p.memoryErr != nil {
		return nil // what is asked for is not known; allocating says why
	}
	resources := ask()
	if p.ran() && slices.ContainsFunc(resources, func(r numa.Resource) bool { return !r.NoPreference && len(r.Hints) == 0 }) {
		return nil
	}
	slices.SortFunc(resources, func(a, b numa.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return resources
}

func (p memoryProvider) AllocatePod() error {
	near := memplan.Near{}
	for _, c := range p.memoryAsked.Containers {
		if p.node.CPUs == nil {
			break
		}
		if nodes, ok := p.node.CPUs.ContainerNodes(p.cpus, p.uid, c.Name); ok {
			near[c.Name] = nodes
		}
	}
	return p.allocate(func() (memplan.PodRecord, error) {
		return p.memory.PlanPod(p.memoryAsked, p.podAffinity(), near)
	})
}

func (p memoryProvider) AllocateContainer(container string) error {
	return p.allocate(func() (memplan.PodRecord, error) {
		return p.memory.PlanContainer(p.memoryAsked, container, p.affinity(container))
	})
}

func (p memoryProvider) allocate(plan func() (memplan.PodRecord, error)) error {
	if !p.static() {
		return nil
	}
	if p.memoryErr != nil {
		return p.memoryErr
	}
	before := p.memory.Records()
	record, err := plan()
	switch {
	case err == nil && !record.Equal(before.Pod(p.uid)):
		p.memory = p.memory.With(p.uid, record)
	case err == nil:
		if records, news := before.Learn(p.memoryAsked); news {
			p.memory = memplan.NewHost(p.node.Memory, records)
		}
	case p.ran():
		return nil // it goes on without memory of its own
	}
	return err
}

func (p memoryProvider) AllocatesPods() bool { return true }

func (p memoryProvider) Holds() (needs, holds bool) {
	switch {
	case !p.static():
		return false, false
	case p.memoryErr != nil:
		return true, false
	case p.memory.Holds(p.memoryAsked) || p.ran():
		return true, true
	}
	return p.memoryAsked.NeedsMemory(p.node.whole()), false
}

func (p memoryProvider) Lacks() bool { return p.memory.Records().Pod(p.uid).IsEmpty() }

// Drop does nothing: of a pod that does not run there is no record.
func (p memoryProvider) Drop() {}

func (p memoryProvider) Report(container string) (numa.Report, bool) {
	if !p.static() {
		return numa.Report{}, true
	}
	if p.memoryErr != nil {
		return numa.Report{Cause: p.memoryErr.Error()}, true
	}
	return p.memory.Report(p.memoryAsked, container), true
}

func (p memoryProvider) Usage() []numa.NodeUsage {
	if !p.static() {
		return nil
	}
	return p.memory.Usage()
}

func (p memoryProvider) Trial(change numa.Change, affinity func(container string) numa.Hint) (placement.Provider, error) {
	if p.memoryErr != nil || !p.node.memory.Records().Pod(p.uid).IsEmpty() {
		return nil, numa.ErrImpossible
	}
	return memplan.NewTrial(p.static(), p.memory, p.memoryAsked, change, affinity)
}

func (p memoryProvider) Begin()          {}
func (p memoryProvider) Commit() error   { return nil }
func (p memoryProvider) Rollback() error { return nil }

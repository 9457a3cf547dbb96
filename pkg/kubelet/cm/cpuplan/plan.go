// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"maps"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// PlanContainer returns the pod's record with the container's exclusive CPUs in
// it. A container that asks for none, or that holds CPUs already, leaves the
// record as it is: what is recorded wins over the request. A pod that was
// allocated as a whole is completed as one, whatever the scope is now, and even
// for a container that asks for none.
//
// The CPUs come from the affinity's nodes first. Within the same nodes, CPUs of
// the pod's own ended init containers are reused before others are taken, and an
// init container gets its CPUs out of those that the containers after it are
// going to get, so that a pod does not hold more than its largest phase uses.
func (n *Node) PlanContainer(s State, pod podplan.Pod, container podplan.Container, affinity numa.Hint) (Record, error) {
	record := adopted(pod, s.Record(pod.UID))
	count := pod.ExclusiveCPUs(container)
	if _, held := record.Containers[container.Name]; held {
		return record, nil
	}
	if !record.Pod.IsEmpty() {
		if count == 0 {
			affinity = numa.Hint{Any: true} // it has none: it gave no hints
		}
		return n.PlanPod(s.With(pod.UID, record), pod, affinity)
	}
	if count == 0 {
		return record, nil
	}
	reusable := n.reusable(pod, record, container)
	free := n.offer(n.Free(s))
	if n.options.FullPCPUsOnly {
		if err := n.checkWholeCores(container.Name, free.Union(reusable), count); err != nil {
			return Record{}, err
		}
	}
	cpus, err := n.allocateWithin(free, reusable, count, peakCPUs(pod, container), affinity)
	if err != nil {
		return Record{}, fmt.Errorf("%w (container %q; %s)", err, container.Name, n.describe(free.Union(reusable)))
	}
	next := record.with(container.Name, cpus)
	return next, n.checkSharedPool(s, pod.UID, next)
}

// PlanPod returns the record of a pod with a budget that is allocated as a
// whole: the budget's CPUs, carved as podplan says. A budget that is not a
// whole number of CPUs leaves the record as it is, and so does a record that
// is complete. Where containers are missing in a record they are carved out of
// the CPUs that the pod holds; see complete.
func (n *Node) PlanPod(s State, pod podplan.Pod, affinity numa.Hint) (Record, error) {
	record := adopted(pod, s.Record(pod.UID))
	budget := pod.BudgetCPUs()
	if budget == 0 || n.holdsAll(pod, record) {
		return record, nil
	}
	shares, err := pod.Carve(pod.CPUDemand())
	if err != nil {
		return Record{}, err
	}
	if record.Pod.IsEmpty() && len(record.Containers) > 0 {
		return n.planRest(s, pod, affinity)
	}
	if !record.Pod.IsEmpty() {
		next, err := n.complete(record, shares)
		if err == nil || len(record.Containers) > 0 {
			return next, err
		}
		// No container has anything yet: the pod is placed anew.
		s, record = s.Without(pod.UID), Record{}
	}
	free := n.offer(n.Free(s))
	if n.options.FullPCPUsOnly {
		if err := n.checkWholeCores("", free, budget); err != nil {
			return Record{}, err
		}
	}
	record.Pod, err = n.allocate(free, Set{}, budget, affinity)
	if err != nil {
		return Record{}, fmt.Errorf("%w (the pod budget; %s)", err, n.describe(free))
	}
	next, err := n.carve(record, shares)
	if err != nil {
		mixed, ok := n.carveMixed(err, free, pod, shares, affinity)
		if !ok {
			return Record{}, err
		}
		next = mixed
	}
	next = n.suitSlices(free, next, shares, affinity)
	return next, n.checkSharedPool(s, pod.UID, next)
}

// complete carves the containers that a record lacks out of the pod's CPUs, as
// after a kubelet that stopped between two writes of its state file, or when all
// CPUs of a slice have gone offline. What is recorded does not move, unless the
// rest does not come out even beside it: then the pod shared pool makes room, or
// else the pod's CPUs are carved anew, and if they are not whole cores, slices of
// them are not either.
func (n *Node) complete(record Record, shares []podplan.Share) (Record, error) {
	next, err := n.carve(record, shares)
	anyCores := *n
	anyCores.options.FullPCPUsOnly = false
	for _, retry := range []struct {
		node   *Node
		record Record
	}{{n, withoutPool(record, shares)}, {n, Record{Pod: record.Pod}}, {&anyCores, record}, {&anyCores, withoutPool(record, shares)}} {
		if err == nil {
			break
		}
		if other, errOther := retry.node.carve(retry.record, shares); errOther == nil {
			return other, nil
		}
	}
	return next, err
}

// withoutPool returns the record without the containers that share the pod's CPUs.
func withoutPool(record Record, shares []podplan.Share) Record {
	for _, share := range shares {
		if share.Slice == 0 && share.Container.Kind.LongRunning() {
			record.Containers = maps.Clone(record.Containers)
			delete(record.Containers, share.Container.Name)
		}
	}
	return record
}

// adopted returns the record of a pod with a budget that has no CPUs as a pod but
// containers that share: they can have theirs only of a pod that was allocated as a
// whole, by a kubelet that knew of its CPUs. Those of its containers are its CPUs.
func adopted(pod podplan.Pod, record Record) Record {
	if !record.Pod.IsEmpty() || record.CPUs().Size() > pod.BudgetCPUs() {
		return record
	}
	for _, c := range pod.Containers {
		if _, held := record.Containers[c.Name]; held && pod.ExclusiveCPUs(c) == 0 {
			return Record{Pod: record.CPUs(), Containers: record.Containers}
		}
	}
	return record
}

// planRest completes a pod whose containers were allocated one by one, before
// the scope changed to that of the pod, in the same way.
func (n *Node) planRest(s State, pod podplan.Pod, affinity numa.Hint) (Record, error) {
	for _, c := range pod.Containers {
		record, err := n.PlanContainer(s, pod, c, affinity)
		if err != nil {
			return Record{}, err
		}
		s = s.With(pod.UID, record)
	}
	return s.Record(pod.UID), nil
}

// HasRecord reports whether the pod holds everything that it asks for, from an
// earlier admission.
func (n *Node) HasRecord(s State, pod podplan.Pod) bool {
	record := s.Record(pod.UID)
	return !record.IsEmpty() && n.holdsAll(pod, record)
}

// holdsAll reports whether nothing is left to allocate for the pod.
func (n *Node) holdsAll(pod podplan.Pod, record Record) bool {
	for _, c := range pod.Containers {
		if record.Pod.IsEmpty() && pod.ExclusiveCPUs(c) == 0 {
			continue
		}
		if _, held := record.Containers[c.Name]; !held {
			return false
		}
	}
	return !record.IsEmpty()
}

// reusable is the CPUs of the pod's standard init containers that have ended when
// the container runs, as far as no container that runs beside it holds them. Init
// containers end before a container that is declared later starts. Later ones have
// CPUs already if it is this one that has lost its own.
func (n *Node) reusable(pod podplan.Pod, record Record, container podplan.Container) Set {
	var ended, kept Set
	earlier := true
	for _, c := range pod.Containers {
		cpus := record.Containers[c.Name]
		switch {
		case c.Name == container.Name:
			earlier = false
		case earlier && c.Kind == podplan.StandardInit:
			ended = ended.Union(cpus)
		case earlier || container.Kind.LongRunning():
			kept = kept.Union(cpus)
		}
	}
	return ended.Difference(kept)
}

// checkSharedPool refuses what would leave containers without exclusive CPUs
// nothing to run on, which the kubelet could neither start nor recover from.
func (n *Node) checkSharedPool(s State, podUID string, next Record) error {
	if !n.unreservedShared(s.With(podUID, next)).IsEmpty() {
		return nil
	}
	return fmt.Errorf("not enough cpus available to satisfy request: the node shared pool would be empty (the pod would hold %q, others hold %q, reserved and not shared are %q)",
		next.CPUs(), s.With(podUID, Record{}).Assigned(), n.reserved)
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// PlanPod plans the memory of a pod that is allocated as a whole: its budget
// on one set of nodes, carved for its containers, and each part of it near the
// CPUs of its container where these are known. It returns the pod's new record,
// the old one unchanged when the pod is recorded completely. What is recorded
// stays as it is: missing containers are carved out of the recorded total, and a
// pod whose containers were allocated one by one stays so.
//
// It fails with podplan.EmptyPoolError or podplan.OverBudgetError for a budget
// that cannot be carved, and with a Refusal when there is no room.
func (h Host) PlanPod(pod podplan.Pod, affinity numa.Hint, near Near) (PodRecord, error) {
	record := adopted(pod, h.records.Pod(pod.UID))
	switch {
	case record.Whole():
		return complete(pod, record), nil
	case pod.Budget == nil, len(record.Containers) > 0:
		return h.planEach(pod, affinity)
	}
	request := pod.BudgetMemory()
	if len(request) == 0 {
		return record, nil
	}
	slices, err := carve(pod, nil)
	if err != nil {
		return record, err
	}
	nodes, err := h.choose(request, tenant{}, affinity)
	if err != nil {
		return record, err
	}
	planned := PodRecord{Pod: blocksOf(request, nodes), Containers: map[string][]Block{}, asked: &pod}
	for _, c := range pod.Containers {
		planned.Containers[c.Name] = blocksOf(slices[c.Name], nodes)
	}
	return h.placeNear(planned, near), nil
}

// Holds reports whether the pod has everything that it asks for on record.
func (h Host) Holds(pod podplan.Pod) bool {
	record := h.records.Pod(pod.UID)
	for _, c := range pod.Containers {
		if !record.Whole() && (len(pod.ExclusiveMemory(c)) == 0 || hasEnded(pod, record, c)) {
			continue
		}
		if _, ok := record.Containers[c.Name]; !ok {
			return false
		}
	}
	return record.Whole() || len(record.Containers) > 0
}

// planEach plans container by container.
func (h Host) planEach(pod podplan.Pod, affinity numa.Hint) (PodRecord, error) {
	before := h.records.Pod(pod.UID)
	for _, c := range pod.Containers {
		record, err := h.PlanContainer(pod, c.Name, affinity)
		if err != nil {
			return before, err
		}
		if !record.Equal(h.records.Pod(pod.UID)) {
			h = h.With(pod.UID, record)
		}
	}
	return h.records.Pod(pod.UID), nil
}

// adopted returns the record of a pod with a budget that has nothing as a pod but
// containers that share: they can have theirs only of a pod that was allocated as
// a whole, by a kubelet that knew of its memory. What they have together, but no
// more than the budget, is the pod's, so that what they share counts once.
func adopted(pod podplan.Pod, record PodRecord) PodRecord {
	budget := pod.BudgetMemory()
	shares := slices.ContainsFunc(pod.Containers, func(c podplan.Container) bool {
		return len(record.Containers[c.Name]) > 0 && len(pod.ExclusiveMemory(c)) == 0
	})
	if record.Whole() || len(budget) == 0 || !shares {
		return record
	}
	total := podplan.Memory{}
	for b := range record.Charges() {
		total[b.Resource] = min(budget[b.Resource], add(total[b.Resource], b.Size))
	}
	record.Pod = blocksOf(total, record.Nodes())
	record.asked = &pod
	return record
}

// complete carves the containers that have no entry out of what the pod has.
// A pod that can no longer be carved keeps what it has: it runs. So does one that
// is not managed any more, of which it is not known which containers would share.
func complete(pod podplan.Pod, record PodRecord) PodRecord {
	if !pod.Managed {
		return record
	}
	total := podplan.Memory{}
	for _, b := range record.Pod {
		total[b.Resource] = add(total[b.Resource], b.Size)
	}
	slices, err := carve(pod, total)
	if err != nil {
		return record
	}
	nodes := record.Nodes()
	record.asked = &pod
	for _, c := range pod.Containers {
		if _, ok := record.Containers[c.Name]; !ok {
			record = record.with(c.Name, blocksOf(slices[c.Name], nodes))
		}
	}
	return record
}

// carve carves every resource of the pod and returns what each container's
// blocks amount to: its slice, or the pool that it shares. The total stands in
// for the pod's budget when it is not nil.
func carve(pod podplan.Pod, total podplan.Memory) (map[string]podplan.Memory, error) {
	if total == nil {
		total = pod.BudgetMemory()
	}
	result := make(map[string]podplan.Memory, len(pod.Containers))
	resources := podplan.Memory{}
	for name := range total {
		resources[name] = 0
	}
	for _, c := range pod.Containers {
		result[c.Name] = podplan.Memory{}
		// A slice of what the budget lacks must be refused, not overlooked.
		for name := range pod.ExclusiveMemory(c) {
			resources[name] = 0
		}
	}
	for _, name := range sortedNames(resources) {
		demand := pod.MemoryDemand(name)
		demand.Budget = total[name]
		shares, err := pod.Carve(demand)
		if err != nil {
			return nil, err
		}
		for _, s := range shares {
			amount := s.Slice
			if len(pod.ExclusiveMemory(s.Container)) == 0 {
				amount = s.Pool
			}
			result[s.Container.Name][name] = amount
		}
	}
	return result, nil
}

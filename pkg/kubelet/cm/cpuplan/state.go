// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"maps"
	"slices"
	"strings"
)

// Record is what one pod holds. It is not changed once it is part of a State.
type Record struct {
	// Pod is the pod budget's CPUs; it is empty for a pod whose containers
	// were allocated one by one.
	Pod Set
	// Containers holds each container's CPUs: its exclusive slice or, in a
	// pod with a budget, the pool that it runs in.
	Containers map[string]Set
}

// CPUs is everything that the pod keeps from others.
func (r Record) CPUs() Set {
	all := r.Pod
	for _, cpus := range r.Containers {
		all = all.Union(cpus)
	}
	return all
}

// IsEmpty reports whether the pod holds nothing.
func (r Record) IsEmpty() bool { return r.Pod.IsEmpty() && len(r.Containers) == 0 }

// Only is the record with these CPUs alone. A container that has none of them has
// no entry: it gets CPUs when it is admitted again.
func (r Record) Only(cpus Set) Record {
	left := Record{Pod: r.Pod.Intersection(cpus), Containers: map[string]Set{}}
	for name, held := range r.Containers {
		if held = held.Intersection(cpus); !held.IsEmpty() {
			left.Containers[name] = held
		}
	}
	return left
}

// Equals reports whether both records hold the same.
func (r Record) Equals(o Record) bool {
	return r.Pod.Equals(o.Pod) && maps.EqualFunc(r.Containers, o.Containers, Set.Equals)
}

// String writes the record for logs: "pod=1-4 a=1-2 b=3-4".
func (r Record) String() string {
	var parts []string
	if !r.Pod.IsEmpty() {
		parts = append(parts, "pod="+r.Pod.String())
	}
	for _, name := range slices.Sorted(maps.Keys(r.Containers)) {
		parts = append(parts, name+"="+r.Containers[name].String())
	}
	return strings.Join(parts, " ")
}

// Repaired returns the record of a pod whose containers all lie within its CPUs.
// They can lie outside of them in what the kubelet's own CPU manager leaves behind
// when it stops while it writes a pod that it places a second time: the new CPUs
// of the pod and the old ones of its containers, which run there. So these count,
// with as many more of the pod's as its number of CPUs allows; where they are more
// than that, the pod goes on with what its containers have.
func (r Record) Repaired() Record {
	held := Record{Containers: r.Containers}.CPUs()
	if r.Pod.IsEmpty() || held.Difference(r.Pod).IsEmpty() {
		return r
	}
	left := r.Pod.Size() - held.Size()
	if left < 0 {
		return Record{Containers: r.Containers}
	}
	rest := r.Pod.Difference(held).List()
	return Record{Pod: held.Union(NewSet(rest[:left]...)), Containers: r.Containers}
}

// with returns a copy of the record in which the container holds cpus.
func (r Record) with(container string, cpus Set) Record {
	containers := maps.Clone(r.Containers)
	if containers == nil {
		containers = map[string]Set{}
	}
	containers[container] = cpus
	return Record{Pod: r.Pod, Containers: containers}
}

// Without returns a copy of the record in which the container holds nothing. A
// pod keeps its budget for as long as one of its containers holds something.
func (r Record) Without(container string) Record {
	containers := maps.Clone(r.Containers)
	delete(containers, container)
	if len(containers) == 0 {
		return Record{}
	}
	return Record{Pod: r.Pod, Containers: containers}
}

// State is what all pods hold, by pod UID. It is immutable: changes make a new
// State.
type State struct {
	records map[string]Record
}

// NewState returns a state with the given records, without the empty ones.
func NewState(records map[string]Record) State {
	kept := make(map[string]Record, len(records))
	for uid, r := range records {
		if !r.IsEmpty() {
			kept[uid] = r
		}
	}
	return State{kept}
}

// Record is what the pod holds; it is empty for a pod that holds nothing.
func (s State) Record(podUID string) Record { return s.records[podUID] }

// PodUIDs lists the pods that hold something, sorted.
func (s State) PodUIDs() []string { return slices.Sorted(maps.Keys(s.records)) }

// With returns the state in which the pod holds r and the others what they did.
// An empty record removes the pod.
func (s State) With(podUID string, r Record) State {
	records := maps.Clone(s.records)
	if records == nil {
		records = map[string]Record{}
	}
	if r.IsEmpty() {
		delete(records, podUID)
	} else {
		records[podUID] = r
	}
	return State{records}
}

// Without returns the state in which the pod holds nothing.
func (s State) Without(podUID string) State { return s.With(podUID, Record{}) }

// Equals reports whether both states hold the same.
func (s State) Equals(o State) bool { return maps.EqualFunc(s.records, o.records, Record.Equals) }

// Assigned is everything that any pod keeps from others.
func (s State) Assigned() Set {
	var all Set
	for _, r := range s.records {
		all = all.Union(r.CPUs())
	}
	return all
}

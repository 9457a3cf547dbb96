// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Observed returns the state in which pods that hold nothing in s hold the CPUs
// on which their containers were seen to run, as far as these can be their own.
// It is for records that are lost. Seen is by pod UID and container name.
//
// A container that shares the node shared pool runs on all reserved CPUs or, where
// these are not shared, on CPUs on which containers of other pods run, too: on the
// same, or, if it was not moved off their new CPUs yet, on theirs and others. One
// that is left when these are gone, and that no other pod's overlaps, is taken for
// the owner of its CPUs. That can be wrong; see Confirmed.
func (n *Node) Observed(s State, seen map[string]map[string]Set) State {
	type container struct {
		uid, name string
		cpus      Set
	}
	held := s.Assigned()
	var candidates []container
	for _, uid := range slices.Sorted(maps.Keys(seen)) {
		if !s.Record(uid).IsEmpty() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(seen[uid])) {
			cpus := seen[uid][name].Intersection(n.topology.All())
			if !cpus.IsEmpty() && !n.reserved.IsSubsetOf(cpus) && !cpus.Overlaps(held) {
				candidates = append(candidates, container{uid, name, cpus})
			}
		}
	}
	without := func(shares func(c, o container) bool) (left []container) {
		for _, c := range candidates {
			if !slices.ContainsFunc(candidates, func(o container) bool { return o.uid != c.uid && shares(c, o) }) {
				left = append(left, c)
			}
		}
		return left
	}
	candidates = without(func(c, o container) bool { return o.cpus.IsSubsetOf(c.cpus) })
	candidates = without(func(c, o container) bool { return o.cpus.Overlaps(c.cpus) })
	for _, c := range candidates {
		s = s.With(c.uid, s.Record(c.uid).with(c.name, c.cpus))
	}
	return s
}

// Confirmed returns what is left of a record that Observed has made, now that it
// is known what the pod asks for: containers with as many CPUs of their own as
// they ask for and, if the pod is allocated as a whole and its containers have its
// budget between them, those that share.
func Confirmed(pod podplan.Pod, record Record, whole bool) Record {
	exclusive := Record{Containers: map[string]Set{}}
	asked := Record{Containers: map[string]Set{}}
	var taken, init Set
	for _, c := range pod.Containers {
		cpus, held := record.Containers[c.Name]
		if !held {
			continue
		}
		count := pod.ExclusiveCPUs(c)
		switch {
		case count == 0:
			asked.Containers[c.Name] = cpus
		case cpus.Size() != count:
		case c.Kind.LongRunning() && cpus.Overlaps(taken), !c.Kind.LongRunning() && cpus.Overlaps(init):
			// Two containers of the pod cannot both own a CPU.
		default:
			exclusive.Containers[c.Name], asked.Containers[c.Name] = cpus, cpus
			if c.Kind.LongRunning() {
				taken = taken.Union(cpus)
			} else {
				init = init.Union(cpus)
			}
		}
	}
	if whole && pod.BudgetCPUs() > 0 && asked.CPUs().Size() == pod.BudgetCPUs() {
		return Record{Pod: asked.CPUs(), Containers: asked.Containers}
	}
	if len(exclusive.Containers) == 0 {
		return Record{}
	}
	return exclusive
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"iter"
	"sync"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Host is a machine and what is recorded on it, with everything that follows
// from the two: what is free, and which nodes belong to a group.
type Host struct {
	machine Machine
	records Records
	usage   map[int]*nodeUsage
	ledgers *ledgers
}

// ledgers are those that were asked for already, by resource. They are the same as
// long as the host is.
type ledgers struct {
	mu   sync.Mutex
	made map[string]*ledger
}

// nodeUsage is what the records take of one NUMA node.
type nodeUsage struct {
	assignments int
	// group is the widest set of nodes that a block on this node lies on; the
	// node alone when there is none. The state file has it.
	group numa.Set
	used  map[string]uint64
	// missing is what is recorded here but the node does not have.
	missing map[string]uint64
}

// NewHost derives the usage. What is recorded on nodes or resources that the
// machine does not have is passed over; see Machine.Check.
func NewHost(m Machine, r Records) Host {
	h := Host{machine: m, records: r, usage: make(map[int]*nodeUsage, m.ids.Size()), ledgers: &ledgers{made: map[string]*ledger{}}}
	for id := range m.ids.All() {
		h.usage[id] = &nodeUsage{group: numa.SetOf(id), used: map[string]uint64{}, missing: map[string]uint64{}}
	}
	charges := map[string][]charge{}
	for _, pod := range r.All() {
		for b := range pod.Charges() {
			charges[b.Resource] = append(charges[b.Resource], charge{b.Nodes.Intersection(m.ids), b.Size})
			for id := range b.Nodes.Intersection(m.ids).All() {
				u := h.usage[id]
				u.assignments++
				if u.group.Size() < b.Nodes.Size() {
					u.group = b.Nodes
				}
			}
		}
	}
	for resource, list := range charges {
		h.use(resource, list)
	}
	return h
}

// use spreads the charges of a resource over their nodes.
func (h Host) use(resource string, charges []charge) {
	capacity := h.machine.capacities(resource)
	f := capacity.place(joined(charges))
	for i, source := range f.sources {
		for id := range source.nodes.All() {
			h.usage[id].used[resource] += f.taken[i][id]
		}
		if short := source.size - f.placed[i]; short > 0 {
			ids := source.nodes.List()
			u := h.usage[ids[len(ids)-1]]
			u.missing[resource] = add(u.missing[resource], short)
		}
	}
}

// Machine returns the machine.
func (h Host) Machine() Machine { return h.machine }

// Records returns what is recorded.
func (h Host) Records() Records { return h.records }

// With returns the host with one pod's record replaced.
func (h Host) With(uid string, pod PodRecord) Host {
	return NewHost(h.machine, h.records.With(uid, pod))
}

// NodeState is the derived state of one NUMA node.
type NodeState struct {
	ID int
	// Assignments is the number of blocks that lie on the node, wholly or in
	// part.
	Assignments int
	// Group is the widest set of nodes on which something lies that may lie on
	// this node; the node alone when there is none.
	Group numa.Set
	// Resources is in the order of Machine.Resources.
	Resources []ResourceState
}

// ResourceState is the derived state of one resource of a NUMA node; Used and
// Free add up to Allocatable. How a block on several nodes is spread is a
// convention; only sums over all nodes that such blocks tie together mean
// something.
type ResourceState struct {
	Name string
	Capacity
	Used, Free uint64
	// Missing is what is recorded beyond Allocatable, which happens when the
	// machine has shrunk under pods that run. On a group it is shown on the
	// group's last node.
	Missing uint64
}

// Nodes yields the state of each NUMA node in ascending order.
func (h Host) Nodes() iter.Seq[NodeState] {
	return func(yield func(NodeState) bool) {
		for id := range h.machine.ids.All() {
			u := h.usage[id]
			state := NodeState{ID: id, Assignments: u.assignments, Group: u.group}
			for name, capacity := range h.machine.Resources(id) {
				state.Resources = append(state.Resources, ResourceState{
					Name: name, Capacity: capacity, Used: u.used[name], Free: h.free(id, name), Missing: u.missing[name],
				})
			}
			if !yield(state) {
				return
			}
		}
	}
}

// free is what the node has left; 0 for a node or resource that is not there.
func (h Host) free(node int, resource string) uint64 {
	u, ok := h.usage[node]
	if !ok {
		return 0
	}
	return h.machine.nodes[node][resource].Allocatable - u.used[resource]
}

// freeOn is what the nodes have left together.
func (h Host) freeOn(nodes numa.Set, resource string) uint64 {
	var sum uint64
	for id := range nodes.All() {
		sum = add(sum, h.free(id, resource))
	}
	return sum
}

// unused reports whether the nodes have as much left as is asked for, be it that
// others count on it.
func (h Host) unused(request podplan.Memory, nodes numa.Set) bool {
	for name, size := range request {
		if h.freeOn(nodes, name) < size {
			return false
		}
	}
	return true
}

// capable is the set of nodes that can ever give something of a resource that
// is asked for.
func (h Host) capable(resources []string) numa.Set {
	var set numa.Set
	for id, table := range h.machine.nodes {
		for _, name := range resources {
			if table[name].Allocatable > 0 {
				set = set.Union(numa.SetOf(id))
			}
		}
	}
	return set
}

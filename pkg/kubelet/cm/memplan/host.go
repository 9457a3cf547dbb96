// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"iter"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Host is a machine and what is recorded on it, with everything that follows
// from the two: what is free, and which nodes belong to a group.
type Host struct {
	machine Machine
	records Records
	usage   map[int]*nodeUsage
}

// nodeUsage is what the records take of one NUMA node.
type nodeUsage struct {
	assignments int
	// group is the widest set of nodes that a block on this node lies on; the
	// node alone when there is none.
	group numa.Set
	used  map[string]uint64
	// missing is what is recorded here but the node does not have.
	missing map[string]uint64
}

// NewHost derives the usage. What is recorded on nodes or resources that the
// machine does not have is passed over; see Machine.Check.
func NewHost(m Machine, r Records) Host {
	h := Host{machine: m, records: r, usage: make(map[int]*nodeUsage, m.ids.Size())}
	for id := range m.ids.All() {
		h.usage[id] = &nodeUsage{group: numa.SetOf(id), used: map[string]uint64{}, missing: map[string]uint64{}}
	}
	var charges []Block
	for _, pod := range r.All() {
		charges = slices.AppendSeq(charges, pod.Charges())
	}
	// A block on one node can only be on that node, one on two can give way.
	// So the narrow ones are placed first, and the rest of the order is that
	// of the records, which is fixed.
	slices.SortStableFunc(charges, func(a, b Block) int { return a.Nodes.Size() - b.Nodes.Size() })
	for _, b := range charges {
		h.charge(b)
	}
	return h
}

// charge takes the block from its nodes, the lowest ID first.
func (h Host) charge(b Block) {
	left := b.Size
	last := -1
	for id := range b.Nodes.All() {
		u, ok := h.usage[id]
		if !ok {
			continue
		}
		last = id
		u.assignments++
		if u.group.Size() < b.Nodes.Size() {
			u.group = b.Nodes
		}
		taken := min(left, h.free(id, b.Resource))
		u.used[b.Resource] += taken
		left -= taken
	}
	if left > 0 && last >= 0 {
		u := h.usage[last]
		u.missing[b.Resource] = add(u.missing[b.Resource], left)
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
	// Group is the node and those that a multi-node allocation ties it to.
	Group numa.Set
	// Resources is in the order of Machine.Resources.
	Resources []ResourceState
}

// ResourceState is the derived state of one resource of a NUMA node; Used and
// Free add up to Allocatable. How a multi-node block is spread inside its
// group is a convention, only the sums over the group mean something.
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

// breaksGroups reports whether an allocation on the nodes would break the rule
// that a node is used either for single-node allocations or by one group.
func (h Host) breaksGroups(nodes numa.Set) bool {
	for id := range nodes.All() {
		u, ok := h.usage[id]
		if ok && u.assignments > 0 && u.group != nodes {
			return true
		}
	}
	return false
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Ordinary is the resource name of memory that is not hugepages.
const Ordinary = "memory"

// NodeSpec describes one NUMA node to NewMachine. All sizes are bytes.
type NodeSpec struct {
	ID int
	// Memory is the node's whole memory, hugepages included.
	Memory uint64
	// HugePages is the pool of each page size, by resource name.
	HugePages map[string]uint64
	// Reserved is what the system keeps, by resource name.
	Reserved map[string]uint64
	// NoCPUs is set for a node of memory alone, as that of a GPU or of CXL.
	NoCPUs bool
}

// Capacity is what one NUMA node has of one resource, in bytes.
type Capacity struct {
	Total    uint64
	Reserved uint64
	// Allocatable is what pods can have: the total without what is reserved
	// and, for ordinary memory, without all hugepages.
	Allocatable uint64
}

// Machine is the memory of a machine, by NUMA node and resource. The zero
// value is a machine without memory.
type Machine struct {
	ids   numa.Set
	nodes map[int]map[string]Capacity
	// withCPUs are the nodes that have CPUs; all, when none has.
	withCPUs  numa.Set
	distances *numa.Distances
}

// NewMachine refuses, naming the node and the amounts, a node that has less
// than is reserved on it, and IDs that stand twice or are out of range.
func NewMachine(specs []NodeSpec) (Machine, error) {
	m := Machine{nodes: make(map[int]map[string]Capacity, len(specs))}
	for _, spec := range specs {
		one, err := numa.NewSet(spec.ID)
		if err != nil {
			return Machine{}, err
		}
		if one.IsSubsetOf(m.ids) {
			return Machine{}, fmt.Errorf("the machine lists NUMA node %d twice", spec.ID)
		}
		table, err := spec.table()
		if err != nil {
			return Machine{}, fmt.Errorf("NUMA node %d: %w", spec.ID, err)
		}
		m.ids = m.ids.Union(one)
		m.nodes[spec.ID] = table
		if !spec.NoCPUs {
			m.withCPUs = m.withCPUs.Union(one)
		}
	}
	if m.withCPUs.IsEmpty() {
		m.withCPUs = m.ids
	}
	return m, nil
}

// WithDistances returns the machine with the distances between its nodes, which
// decide between nodes without CPUs.
func (m Machine) WithDistances(d *numa.Distances) Machine {
	m.distances = d
	return m
}

// wayToCPUs is how far the nodes without CPUs among the given ones are, in sum,
// from those with CPUs among them or, if there are none, from any: 0 for nodes
// that all have CPUs, or when distances are not known.
func (m Machine) wayToCPUs(nodes numa.Set) uint64 {
	near := nodes.Intersection(m.withCPUs)
	if near.IsEmpty() {
		near = m.withCPUs
	}
	var sum uint64
	for far := range nodes.Difference(m.withCPUs).All() {
		sum = add(sum, m.way(near, far))
	}
	return sum
}

// way is the distance of a node from the nearest of others, 0 when it is not
// known.
func (m Machine) way(from numa.Set, to int) uint64 {
	if m.distances == nil {
		return 0
	}
	least, known := ^uint64(0), false
	for id := range from.All() {
		if d, ok := m.distances.Between(id, to); ok {
			least, known = min(least, d), true
		}
	}
	if !known {
		return 0
	}
	return least
}

func (s NodeSpec) table() (map[string]Capacity, error) {
	table := map[string]Capacity{}
	var pages uint64
	for _, name := range slices.Sorted(maps.Keys(s.HugePages)) {
		size, kept := s.HugePages[name], s.Reserved[name]
		if kept > size {
			return nil, fmt.Errorf("%s of %s is reserved, but the node has %s", numa.Bytes(kept), name, numa.Bytes(size))
		}
		pages = add(pages, size)
		table[name] = Capacity{Total: size, Reserved: kept, Allocatable: size - kept}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Reserved)) {
		if _, present := s.HugePages[name]; name != Ordinary && !present && s.Reserved[name] > 0 {
			return nil, fmt.Errorf("%s of %s is reserved, but the node has none", numa.Bytes(s.Reserved[name]), name)
		}
	}
	kept := s.Reserved[Ordinary]
	if taken := add(kept, pages); taken > s.Memory {
		return nil, fmt.Errorf("%s of memory is reserved and hugepages take %s, together more than the node's %s",
			numa.Bytes(kept), numa.Bytes(pages), numa.Bytes(s.Memory))
	}
	table[Ordinary] = Capacity{Total: s.Memory, Reserved: kept, Allocatable: s.Memory - kept - pages}
	return table, nil
}

// Nodes is the set of the machine's NUMA nodes.
func (m Machine) Nodes() numa.Set { return m.ids }

// Capacity is what the node has of the resource, and whether it has the
// resource at all.
func (m Machine) Capacity(node int, resource string) (Capacity, bool) {
	c, ok := m.nodes[node][resource]
	return c, ok
}

// Resources yields what the node has: ordinary memory first, then the
// hugepages by name.
func (m Machine) Resources(node int) iter.Seq2[string, Capacity] {
	return func(yield func(string, Capacity) bool) {
		for _, name := range sortedNames(m.nodes[node]) {
			if !yield(name, m.nodes[node][name]) {
				return
			}
		}
	}
}

// capacities is what each node can give of the resource.
func (m Machine) capacities(resource string) capacities {
	var c capacities
	for id := range m.ids.All() {
		c[id] = m.nodes[id][resource].Allocatable
	}
	return c
}

// Check fails when the pod uses a NUMA node or a resource that the machine does
// not have. Amounts are not looked at: pods that run win over a machine that has
// shrunk.
func (m Machine) Check(uid string, pod PodRecord) error {
	if err := m.checkBlocks(uid, "", pod.Pod); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pod.Containers)) {
		if err := m.checkBlocks(uid, name, pod.Containers[name]); err != nil {
			return err
		}
	}
	return nil
}

// Known is the record without blocks of resources that their nodes do not have any
// more, such as pages of a size that is gone. What else the pod has it uses still.
// Blocks on nodes that the machine does not have stay, for Check.
func (m Machine) Known(pod PodRecord) PodRecord {
	known := func(blocks []Block) []Block {
		return slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool {
			return !b.Nodes.IsEmpty() && b.Nodes.IsSubsetOf(m.ids) && !m.have(b.Nodes, b.Resource)
		})
	}
	if m.Check("", pod) == nil {
		return pod
	}
	pod.Pod = known(pod.Pod)
	containers := make(map[string][]Block, len(pod.Containers))
	for name, blocks := range pod.Containers {
		if left := known(blocks); len(left) > 0 || len(blocks) == 0 {
			containers[name] = left
		}
	}
	pod.Containers = containers
	return pod
}

func (m Machine) checkBlocks(uid, container string, blocks []Block) error {
	for _, b := range blocks {
		if gone := b.Nodes.Difference(m.ids); !gone.IsEmpty() {
			return fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses the NUMA that does not exist: it uses NUMA nodes %s, the machine has %s",
				uid, container, b.Nodes, m.ids)
		}
		if !b.Nodes.IsEmpty() && !m.have(b.Nodes, b.Resource) {
			return fmt.Errorf("[memorymanager] (pod: %s, container: %s) the memory assignment uses memory resource that does not exist: it uses %s of NUMA nodes %s, which have %v",
				uid, container, b.Resource, b.Nodes, m.resourcesOf(b.Nodes))
		}
	}
	return nil
}

// have reports whether any of the nodes has the resource. A block can lie on
// nodes of which some lack it.
func (m Machine) have(nodes numa.Set, resource string) bool {
	for id := range nodes.All() {
		if _, ok := m.Capacity(id, resource); ok {
			return true
		}
	}
	return false
}

func (m Machine) resourcesOf(nodes numa.Set) []string {
	all := map[string]bool{}
	for id := range nodes.All() {
		for name := range m.nodes[id] {
			all[name] = true
		}
	}
	return sortedNames(all)
}

// sortedNames returns the resources in the order in which blocks are written:
// ordinary memory first, then the hugepages by name.
func sortedNames[V any](amounts map[string]V) []string {
	return slices.SortedFunc(maps.Keys(amounts), compareResources)
}

func compareResources(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == Ordinary, b != Ordinary && a < b:
		return -1
	default:
		return 1
	}
}

// add adds without wrapping, so that what is absurdly large stays so.
func add(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

// amounts lists a request for messages: "memory 12Gi, hugepages-2Mi 1Gi".
func amounts(request podplan.Memory) string {
	text := ""
	for _, name := range sortedNames(request) {
		if text != "" {
			text += ", "
		}
		text += name + " " + numa.Bytes(request[name])
	}
	return text
}

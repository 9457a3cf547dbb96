// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Options are the static policy's options that change decisions.
type Options struct {
	// FullPCPUsOnly gives out whole physical cores only.
	FullPCPUsOnly bool
	// StrictCPUReservation keeps the reserved CPUs out of the node shared pool.
	StrictCPUReservation bool
	// DistributeAcrossNUMA spreads what needs several NUMA nodes evenly over
	// them, instead of filling one after the other.
	DistributeAcrossNUMA bool
	// AlignBySocket prefers NUMA nodes of one socket to others.
	AlignBySocket bool
	// DistributeAcrossCores gives out single threads of as many physical cores
	// as there are.
	DistributeAcrossCores bool
	// PreferUncoreCache prefers CPUs that share a last-level cache.
	PreferUncoreCache bool
}

// Node is what does not change while the kubelet runs: the machine's CPUs, the
// reserved ones and the options. Everything else is a function of it and a
// State.
type Node struct {
	topology *Topology
	reserved Set
	options  Options
}

// NewNode returns a node whose reserved CPUs are the given ones or, when that
// set is empty, as many as count says, chosen as the options choose for pods. It
// fails when the set does not have that many CPUs or has CPUs that the machine
// does not, when a strict reservation would leave no shared pool, and when CPUs
// are to be aligned by socket on a machine whose sockets share NUMA nodes.
func NewNode(t *Topology, reserved Set, count int, options Options) (*Node, error) {
	if sockets, nodes := len(t.sockets.units), len(t.nodes.units); options.AlignBySocket && sockets > nodes {
		return nil, fmt.Errorf("Align by socket is not compatible with hardware where number of sockets are more than number of NUMA (%d sockets, %d NUMA nodes with CPUs)", sockets, nodes)
	}
	if reserved.IsEmpty() {
		// Choosing too few is reported below, with both numbers.
		reserved = chooseReserved(t, count, options)
	}
	if missing := reserved.Difference(t.All()); !missing.IsEmpty() {
		return nil, fmt.Errorf("[cpumanager] reserved CPUs %q are not among the machine's online CPUs %q", missing, t.All())
	}
	if reserved.Size() != count {
		return nil, fmt.Errorf("[cpumanager] unable to reserve the required amount of CPUs (size of %s did not equal %d)", reserved, count)
	}
	if options.StrictCPUReservation && reserved.Equals(t.All()) {
		return nil, fmt.Errorf("[cpumanager] strict-cpu-reservation leaves no CPU for pods: all of %q are reserved", t.All())
	}
	return &Node{topology: t, reserved: reserved, options: options}, nil
}

// Topology is the machine's CPUs.
func (n *Node) Topology() *Topology { return n.topology }

// Options are the options of the policy.
func (n *Node) Options() Options { return n.options }

// Reserved is the CPUs that no pod gets for itself.
func (n *Node) Reserved() Set { return n.reserved }

// Allocatable is the CPUs that pods can get for themselves on an idle node.
func (n *Node) Allocatable() Set { return n.topology.All().Difference(n.reserved) }

// Shared is the node shared pool: what no pod keeps from others. Containers
// without any cpuset would run on the exclusive CPUs, so it is never empty: if a
// strict reservation that has grown since pods were admitted would leave nothing,
// it is those of the reserved CPUs that no pod has; and if pods have them all, as
// when CPUs went offline, the reserved ones all the same.
func (n *Node) Shared(s State) Set {
	if shared := n.unreservedShared(s); !shared.IsEmpty() {
		return shared
	}
	if shared := n.reserved.Difference(s.Assigned()); !shared.IsEmpty() {
		return shared
	}
	return n.reserved
}

// unreservedShared is the node shared pool without the exception for what a
// strict reservation leaves empty.
func (n *Node) unreservedShared(s State) Set {
	shared := n.topology.All().Difference(s.Assigned())
	if n.options.StrictCPUReservation {
		shared = shared.Difference(n.reserved)
	}
	return shared
}

// SharesReserved reports whether the node shared pool has to be CPUs of a strict
// reservation, because pods hold all others.
func (n *Node) SharesReserved(s State) bool {
	return n.options.StrictCPUReservation && n.unreservedShared(s).IsEmpty()
}

// Free is the CPUs that can be given out.
func (n *Node) Free(s State) Set { return n.Allocatable().Difference(s.Assigned()) }

// offer is those of the free CPUs that the options allow to give out.
func (n *Node) offer(free Set) Set {
	if n.options.FullPCPUsOnly {
		return n.topology.WholeCores(free)
	}
	return free
}

// perNode counts the CPUs of a set on each NUMA node.
func (n *Node) perNode(cpus Set) []nodeCount {
	counts := make([]nodeCount, 0, len(n.topology.nodes.units))
	for _, u := range n.topology.nodes.units {
		counts = append(counts, nodeCount{node: u.id, count: u.cpus.Intersection(cpus).Size()})
	}
	return counts
}

type nodeCount struct{ node, count int }

// nodesOf is the nodes of a set of CPUs.
func (n *Node) nodesOf(cpus Set) numa.Set { return n.topology.NodesOf(cpus) }

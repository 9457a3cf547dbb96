// SPDX-License-Identifier: Apache-2.0

// Package memplan decides which NUMA nodes the memory of a pod comes from. It
// takes a machine, what is recorded on it and what a pod asks for, and returns
// hints, a new record, or a Refusal that says why. It changes nothing, and
// knows no kubelet, file, lock or clock.
//
// # Machine and records
//
// A Machine is, for each NUMA node, the sizes of "memory" and of each
// "hugepages-*": total, reserved for the system, and allocatable, which is the
// total without the reservation and, for "memory", without all hugepages.
//
// Records say what each pod has, as blocks: an amount of one resource on a set
// of nodes. Nothing else is kept. What is free, how many blocks a node has and
// which nodes form a group is derived from machine and records by NewHost, so
// it cannot drift. If the machine has shrunk under what is recorded, the
// records stand, and what is free stops at zero.
//
// # Where memory may come from
//
//   - All resources of a request lie on the same nodes.
//   - A set of nodes qualifies when, for every resource, its nodes together
//     have enough free.
//   - Single and group use exclude each other: a node that holds blocks of one
//     node cannot join a set of several, and nodes that hold a block of several
//     form a group, which only blocks on exactly the same nodes may use until
//     the last one is gone. A request for a part of a group is extended to the
//     whole.
//   - A set is preferred when it has as few nodes as the smallest set that
//     could hold the request on the idle machine.
//   - Nodes that can never give any of the resources are left out.
//
// No qualifying set means an empty list of hints, which refuses the request;
// it is never "no preference".
//
// All qualifying sets are listed when at most 12 nodes are unused. Beyond that
// a size of which there are more sets than a bound (65535 for the preferred
// size, 4095 for the others) is represented by the runs of neighbouring nodes
// that qualify, or by one qualifying set if no run does. So a request that
// fits gets a hint, and what is marked preferred always is.
//
// # Allocation
//
// The topology manager answers the hints with an affinity. Without one the
// best hint is taken: preferred before the others, then the fewest nodes, then
// the smallest number. An affinity that is too small is extended to the best
// hint that contains it.
//
// Container by container: each container gets one block for each resource. A
// standard init container has ended when a later container starts, so later
// containers have its memory again if they lie on the same nodes; its blocks
// shrink by what they take, and what nobody took is given back when the next
// container starts. The entry stays, without blocks: it marks that nothing is
// to be allocated when the pod is admitted again. Sidecars keep theirs.
//
// A pod as a whole: the budget is charged once, on one set of nodes, for the
// pod's life. The containers' blocks say how it is carved (see podplan): an
// exclusive container has its own requests, a standard init container that
// shares has what the sidecars before it left, the others have the pool.
//
// What is recorded is never planned again, moved, or compared with the pod's
// present requests. Only what is missing is added.
//
// # Example that fits
//
// Two nodes with 32Gi, 1Gi reserved on each; a pod with a budget of 16Gi, two
// sidecars without resources and a container "database" with 12Gi. The hints
// are {0} and {1}, preferred, and {0,1}. The topology manager decides on {1}:
//
//	pod            memory 16Gi on {1}
//	backup-agent   memory 4Gi on {1}     (the pool)
//	database       memory 12Gi on {1}
//	exporter       memory 4Gi on {1}     (the same pool)
//
// Node 1 has 15Gi left and is in use by single-node allocations, so hints for
// the next pod no longer contain {0,1}.
//
// # Example that does not fit
//
// On the same machine another pod asks for 20Gi. Node 0 has 31Gi free, so {0}
// is its only hint. A third asks for 20Gi again: node 0 has 11Gi, node 1 15Gi,
// and both are in use by single-node allocations, so together they may not be
// used although 26Gi are free. The list of hints is empty, and an allocation
// without an affinity is refused:
//
//	[memorymanager] failed to get the default NUMA affinity, no NUMA nodes
//	with enough memory is available: asked for memory 20Gi on any NUMA nodes;
//	NUMA node 0: memory 11Gi free of 31Gi, in use by single-node allocations;
//	NUMA node 1: memory 15Gi free of 31Gi, in use by single-node allocations
package memplan

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
// what more can be promised is derived from machine and records, so it cannot
// drift. If the machine has shrunk under what is recorded, the records stand,
// and what is free stops at zero.
//
// # Nobody starves
//
// A block says on which nodes the pages of a container may lie, not how they are
// spread: the kernel puts each on any of them that has room, by its own rules
// and at its own time. So a block on several nodes may come to lie on one of
// them alone, and fill it up. Each resource is judged by itself; hugepages lie
// in a pool of each node and are no different. The rule is:
//
//	Every block's nodes have a part that cannot be exhausted: the sizes of all
//	blocks that may come to lie on that part, added up, are no more than what
//	the part has.
//
// A request may lie on a set of nodes if afterwards the rule holds for it and
// for every recorded block.
//
// The rule is enough. As long as somebody has less than his size, all that lies
// on his part is less than the part has, so there is room on it for him,
// however the others lie, whatever they give back and take again.
//
// And it is needed. How much of a set S others can take at the most is a maximum
// flow from them to the nodes of S, and what is left, at the worst, is the
// capacity of S less that flow. By the theorem of max-flow and min-cut the flow
// is the smallest of: what S has outside of a part, and the sizes of all others
// that touch that part, over all parts of S, the empty one included. So a size
// fits into what is left exactly if there is a part as in the rule. What is
// refused is a placement in which the kernel may let somebody starve. Nothing is
// enumerated: the flow is computed where neither the whole set nor a single node
// of it shows at a glance that there is room.
//
// For blocks on sets that are equal or apart this is the kubelet's rule: what
// lies on a set is no more than the set has. Where sets overlap in a part, the
// kubelet refuses every time, and this rule only if somebody could lose: nodes
// with blocks of one node and of several go together if each such node could
// hold the blocks on several in addition to its own. There are no groups that
// outlive the pods that needed them, since nothing is recorded of groups.
//
// Inside a pod the same is asked for: a container is sure of what it has beside
// other pods, which count with all that they are charged with, and beside those
// containers of its own pod that run at the same time (phases.go). Which ones
// these are is known from the pod, not from the record; until the pod is seen
// after a restart, all of them count.
//
// What recorded blocks are not sure of already, because the machine has shrunk,
// is made no worse: nothing comes to their nodes.
//
// # Where memory may come from
//
//   - All resources of a request lie on the same nodes.
//   - A set of nodes qualifies when the rule above allows it for every resource.
//   - A set is preferred when it has as few nodes as the smallest set that
//     could hold the request on the idle machine.
//   - Nodes that can never give any of the resources are left out.
//   - Nodes without CPUs (CXL, HBM, memory of GPUs) are no one's local memory.
//     They are left out as long as a set of nodes with CPUs qualifies, and an
//     affinity that has some is cut down to the others if these will do. When
//     none qualifies, sets with such nodes are listed, as preferred only if all
//     nodes with CPUs together could not hold the request on the idle machine.
//     Between sets of the same size the distance from the CPUs decides.
//
// No qualifying set means an empty list of hints, which refuses the request;
// it is never "no preference".
//
// All qualifying sets are listed when at most 12 nodes come into question.
// Beyond that a size of which there are more sets than a bound (65535 for the
// preferred size, 4095 for the others) is represented by the runs of
// neighbouring nodes and the sets in use that qualify, or by one qualifying set
// if none of these does. What is marked preferred always is. A request that fits
// gets a hint, unless it fits only on a set that is neither, and shares nodes
// with allocations on several.
//
// # Allocation
//
// The topology manager answers the hints with an affinity. Without one the
// best hint is taken: preferred before the others, then the fewest nodes, then
// the smallest number. An affinity that is too small is extended to the best
// hint that contains it; if there is none, it is cut down to the best hint in it.
//
// Container by container: each container gets one block for each resource. A
// standard init container has ended when a later container starts, so what it
// has is not in the way of that one. What the later one's block covers is taken
// out of the earlier block: where it lies on the same nodes or on a part of
// them, wherever it lay it is one of the nodes that the later block is counted
// on. So the pod is charged, on any part of the machine, with at least what each
// of its phases may have there, and no more than its largest phase where the
// nodes are the same. It stays so for the pod's life: init containers run again
// when the pod's sandbox is made anew. To that end hints of an init container
// leave out nodes where what comes after it does not fit.
//
// A pod as a whole: the budget is charged once, on one set of nodes, for the
// pod's life. The containers' blocks say how it is carved (see podplan): an
// exclusive container has its own requests, a standard init container that
// shares has what the sidecars before it left, the others have the pool. If the
// set has several nodes, each part lies on those of the CPUs of its container,
// as far as it is sure of its size there (near.go).
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
// Node 1 has 15Gi left. The next pod may have up to 15Gi on {0,1} too: even if
// all of it comes to lie on node 1, the database has what it was promised.
//
// # Example that does not fit
//
// On the same machine another pod asks for 20Gi. Node 0 has 31Gi free, so {0}
// is its only hint. A third asks for 20Gi again: node 0 has 11Gi, node 1 15Gi.
// Together that is enough, but the 20Gi on {0,1} could fill node 0, where the
// second pod may not have touched all of its memory yet. The list of hints is
// empty, and an allocation without an affinity is refused:
//
//	[memorymanager] failed to get the default NUMA affinity, no NUMA nodes
//	with enough memory is available: asked for memory 20Gi on any NUMA nodes;
//	NUMA node 0: memory 11Gi free of 31Gi, in use by single-node allocations;
//	NUMA node 1: memory 15Gi free of 31Gi, in use by single-node allocations;
//	together that is enough, but an allocation that may lie on any of them
//	could take what others were promised
package memplan

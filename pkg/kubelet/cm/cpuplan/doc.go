// SPDX-License-Identifier: Apache-2.0

// Package cpuplan decides which CPUs a pod gets. It takes the machine's CPUs
// (Topology, Node), what all pods hold (State) and what a pod asks for
// (podplan.Pod), and returns the pod's next Record or an error that says why
// there is none. It changes nothing.
//
// Nothing about a node is counted up and down: the node shared pool, the free
// CPUs and every total are functions of the machine and the records.
//
// # Which CPUs
//
// Take packs: it prefers whole sockets, nodes and cores, and smaller holes
// before larger ones. A request with an affinity is served from the affinity's
// NUMA nodes as far as these have enough, then from elsewhere; only a merged
// hint of the topology manager says whether that is acceptable.
//
// The static policy's options change this as the fields of Options say; each has
// a file: take_cache.go, take_spread.go, distribute.go, and choose.go for the
// order in which affinity, sockets and reuse count.
//
// A budget that spans NUMA nodes is carved so that its slices lie on one node each
// as far as possible, and what they leave on few (merit, layout.go). If that takes
// other CPUs of the same nodes than those that are packed best, the budget has them.
//
// A pod without a budget, or in the container scope, is planned container by
// container, and yet as one: an init container's CPUs are taken out of those that
// the containers after it are going to get (peakCPUs), so that a pod holds no more
// than its largest phase uses and is not tied to nodes where the rest of it does
// not fit.
//
// # Cost
//
// A set of CPUs is a bit mask. Choosing is linear in CPUs times the number of
// kinds of units. The search for where slices lie is bounded (fillLimit). Hints
// are complete up to completeNodes NUMA nodes; see hints.
//
// # A worked example
//
// One socket with one NUMA node, CPUs 0-7, CPU i and i+4 on one core, CPUs 0
// and 4 reserved. A pod has a budget of 4 CPUs, a sidecar without resources and
// a container with 2 CPUs of its own. Free are 1-3,5-7. The budget becomes
// 1-2,5-6: two whole cores. The container's slice is 1,5, one of them, and the
// sidecar runs in the pod shared pool 2,6. The node shared pool is now
// 0,3-4,7.
//
// A second such pod does not fit: 2 CPUs are free where 4 are asked for, and
// PlanPod returns a NotEnoughError.
package cpuplan

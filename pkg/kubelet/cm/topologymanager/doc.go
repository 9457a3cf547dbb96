// SPDX-License-Identifier: Apache-2.0

// Package topologymanager decides, when a pod is admitted, from which NUMA
// nodes its devices, CPUs and memory are to come. It is a drop-in replacement
// for the kubelet's package of the same name.
//
// It is a shell. The decision is made by the packages numa (which affinity is
// the best) and placement (who is asked what, in which order, and what is undone
// when somebody refuses); their package comments are the specification. What is
// here is the kubelet's contract around them: its interfaces, options, metrics,
// logs and error texts, and the Store of affinities that the other managers
// read.
//
// # Beyond the kubelet's own package
//
//   - A refused pod leaves nothing behind: providers that are an
//     AdmissionParticipant give back what they took, and its hints are dropped.
//   - A running pod whose allocations are on record with every AllocationHolder is
//     not refused after a restart, even under a stricter policy.
//   - Providers without pod-level support get their containers in scope pod too,
//     so that the devices of a pod with pod-level resources are allocated at
//     admission and not when its containers start.
//   - A refusal says after the well-known sentence which resources stood in the
//     way and, from providers that are a ResourceReporter, what was asked, what
//     each NUMA node has and what would help, which was tried with those that are
//     an AdmissionTrier. The same facts are a value, placement.AffinityRefusal.
//   - A resize that would change what the pod has of a ResizeGuard is infeasible,
//     under every policy. Any other is admitted as far as it is up to us. None
//     overwrites the hints by which the pod was placed or counts as an admission.
//     Hints live as long as the kubelet has the pod.
//   - An AdmissionSettler is told when an admission is over, so that what it counts
//     is not given back by another provider.
//   - Any number of nodes that masks can hold is allowed, and IDs may have gaps.
//     IDs above 63 are an error when the manager is made, as are distances that
//     are incomplete when they are needed.
//   - The options numa-tie-break and best-effort-locality, see package numa.
//   - Admission errors are counted in every scope, durations have fractions of
//     milliseconds, and there is a histogram in seconds beside.
//
// # Limits
//
// Node IDs are 0 to 63, the width of the masks that the device manager knows.
// The merge is exact for 16 nodes and more, see package numa. Hints live in
// memory: after a restart of the kubelet they come back when it admits its
// running pods again.
//
// # Log
//
// One line when the manager is made. Per admission: the affinity at V(2), what
// each provider answered at V(5), a refusal at V(2); what could not be undone
// is an error.
//
// # Example
//
// Policy single-numa-node, scope pod, two nodes with 4 of 8 CPUs free each, and a
// pod that asks for 6. It is rejected with the reason TopologyAffinityError and
// the message
//
//	Resources cannot be allocated with Topology locality: cpu: not available on
//	any single NUMA node (asked for 6 CPUs; free: NUMA nodes 0-1: 4 of 8 each); on
//	an idle machine cpu would fit 1 NUMA node, such as 0; policy single-numa-node,
//	scope pod; would help: freeing 2 CPUs on one of the NUMA nodes 0-1, or asking
//	for at most 4 CPUs, or policy best-effort
package topologymanager

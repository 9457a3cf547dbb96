// SPDX-License-Identifier: Apache-2.0

// Package podplan says what a pod asks of the resource managers: which of its
// containers are exclusive and which share, what its budget is, and by which
// rules the budget is carved. It decides nothing about where on the machine
// anything goes; that is the business of cpuplan and memplan.
//
// # Carving a budget
//
// A pod that states its budget in .spec.resources and is allocated as a whole
// (topology manager scope "pod") is carved in spec order, init containers
// first:
//
//   - A sidecar that is exclusive gets a slice for the pod's whole life.
//   - A standard init container that is exclusive gets a slice out of what the
//     sidecars declared before it have left. It ends before anything declared
//     later starts, so later containers own the same resources again.
//   - A standard init container that shares runs on everything that the
//     sidecars declared before it have left.
//   - An application container that is exclusive gets a slice out of what all
//     sidecars have left.
//   - Every other container runs in the pod shared pool: what all sidecars and
//     application containers with slices have left.
//
// Example: a budget of 8 CPUs, two sidecars without resources and a container
// with requests = limits = 6 CPUs give one slice of 6 and a pod shared pool of
// 2. If the container asked for all 8 the pool would be empty and the pod is
// refused with an EmptyPoolError.
package podplan

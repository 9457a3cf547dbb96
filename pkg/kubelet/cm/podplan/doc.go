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
//
// # CFS quotas
//
// A container with CPUs of its own has no CFS quota. A quota of its pod's cgroup
// could still throttle it, for what others of the pod use. So in a pod with a
// budget and an exclusive container, those that share are bounded by themselves
// (Quotas), and the pod's quota is lifted when that bounds the pod:
//
//   - A container in a pool of its pod is bounded by the pool's CPUs; its quota is
//     at most as many.
//   - Containers in the node shared pool divide what the slices leave of the
//     budget: all get the same, but none less than it requests nor more than its
//     limit. What one may not use is for the others. This holds at every moment:
//     for the containers that run until the pod ends, and for the sidecars beside
//     an exclusive init container that runs after them.
//   - A standard init container in the node shared pool gets what slices and
//     quotas of the sidecars before it leave. It ends, so it is not allowed to
//     take anything from those that stay.
//   - If all that is exclusive are standard init containers that run beside nobody
//     and leave something of the budget, the pod's quota cannot throttle them. It
//     stays, and nothing is divided.
//   - Where quotas cannot bound, because there is nothing left to divide or less
//     than quotas can express, the pod's quota stays. With nothing left beside
//     slices that stay, a sharer's quota is one CPU, or its limit if that is less.
//   - Ephemeral containers come later, and are outside the budget. Their quota is
//     what the slices leave, or one CPU if that is more.
package podplan

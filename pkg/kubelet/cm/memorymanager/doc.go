// SPDX-License-Identifier: Apache-2.0

// Package memorymanager gives Guaranteed pods and containers memory and
// hugepages on NUMA nodes of their own choosing. It takes the place of the
// kubelet's package of the same name and keeps its exported surface.
//
// What is decided, and by which rules, is package memplan's business; here is
// what the kubelet needs around it. An allocation is planned from the published
// records, written by the state package in one file replacement, and only then
// published. With a topology manager that has admissions (BeginAdmission to
// CommitAdmission) everything that one pod takes, and the removal of pods that
// are gone, is one replacement; with another one each Allocate or AllocatePod
// is. An error means that nothing was taken.
//
// # A running pod is not refused
//
// What is recorded is admitted again as it is, whatever has changed since. A
// pod that had containers in the runtime when the kubelet started, but has no
// record and does not fit, is admitted without memory of its own: it runs
// already, and refusing it would kill it.
//
// # Policies
//
// None gives nothing. Static is this package's subject; it is for Linux.
// BestEffort, which is for Windows, is not supported yet.
package memorymanager

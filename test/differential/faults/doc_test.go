// SPDX-License-Identifier: Apache-2.0

// Package faults proves what docs/faults.md claims: each fault of the kubelet's
// own managers is a short scenario that goes wrong with them and right with
// ours.
//
// A scenario drives a node: the topology, CPU and memory manager of one make,
// wired as the kubelet wires them, with a fake runtime and, where it matters, a
// fake device manager. It outlives kubelets as a real node does: a restart makes
// new managers on the same state files, which admit all running pods again. The
// scenario's statements say what has to be; the first that does not hold is the
// fault.
//
// Every scenario runs once for each make, in a process of its own: the kubelet's
// own managers may crash or never return, and gates and metrics are those of a
// process. What was observed of them is the text in the table, word for word, so
// that a scenario which goes wrong for another reason is noticed.
//
//	go test ./test/differential/faults -v -run TestFaults          prints the table
//	go test ./test/differential/faults -run TestFaults -rewrite    writes docs/faults.md
package faults

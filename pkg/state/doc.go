// SPDX-License-Identifier: Apache-2.0

// Package state reads, judges, compares and repairs the state files of the
// kubelet's CPU and memory manager, offline: those that Kubernetes 1.35 to 1.37
// write, and podslice. It knows no kubelet; what follows from a content, and what
// is to be done about one that is wrong, is decided by the packages cpuplan and
// memplan, as in the kubelet.
//
// The newest versions of both files have two parts: Data, a text under a checksum
// of its own, and beside it an inline part that older kubelets read. A part is
// read as far as it can be read; what cannot is a Finding.
package state

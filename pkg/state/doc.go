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
//
// The packages named state below describe the format a second time: the managers'
// own, cpumanager/state and memorymanager/state, cannot be shared. Older checksums
// are hashes over a dump that has the names of packages, types and fields in it,
// so a common description would have to be the managers' exported types, under
// these names. But the Checksum in them is the kubelet's type, which upstream's
// users of the packages expect and which would link the kubelet here; and CPU sets
// of pods must stay texts here, for a text that is no set is to be told of, not to
// end the reading. Test/state holds both descriptions together.
package state

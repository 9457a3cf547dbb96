// SPDX-License-Identifier: Apache-2.0

// Package statecheck says what is wrong with the managers' state files of a node.
//
// There are two judges. Verify is a plain one that knows only what the files must
// be true to: CPUs are given out once and all others are in the shared pool, memory
// adds up on every NUMA node, in the part for this release of Kubernetes and in
// that for older ones, and all checksums are right. Upstream has the managers of
// Kubernetes 1.37 themselves start on the files, as they do after a rollback, and
// returns what they have read.
//
// Neither knows what runs on the node: that what is recorded is also so is for
// the caller to compare.
package statecheck

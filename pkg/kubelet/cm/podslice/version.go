// SPDX-License-Identifier: Apache-2.0

// Package podslice says which version of podslice a kubelet has in it. A fork of
// Kubernetes keeps its own version string, so the managers log this one.
package podslice

// Version is that of hack/VERSION; a test there holds the two together.
const Version = "0.1.0"

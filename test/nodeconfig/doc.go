// SPDX-License-Identifier: Apache-2.0

// Package nodeconfig holds pkg/nodeconfig against a kubelet: the code by which
// Kubernetes reads, checks and takes apart a KubeletConfiguration, and podslice's
// managers, as they are made with the outcome.
package nodeconfig

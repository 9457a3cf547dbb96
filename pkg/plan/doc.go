// SPDX-License-Identifier: Apache-2.0

// Package plan is a kubelet on paper: it decides about pods, one after the other,
// as the topology, CPU and memory manager of a node do, and says what each would be
// given.
//
// A Node is a value: a machine with a kubelet's settings, and what its pods have.
// Admit returns the next one. It decides nothing about CPUs and memory by itself:
// package placement runs the admission, as in the kubelet, over two providers that
// ask cpuplan and memplan.
//
// # What the kubelet does besides
//
// After its managers the kubelet holds what the pods request against what the node
// has to allocate. That, the QoS class and the CFS quotas it does in code that cannot
// be linked without the kubelet, so they are here once more (allocatable.go, qos.go,
// quota.go), and a test holds them against the kubelet's.
//
// Not decided is what depends on more than a machine and a configuration: devices
// and claims, labels, taints and node affinity, volumes, disks, and whether a
// critical pod has others evicted.
package plan

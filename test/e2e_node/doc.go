// SPDX-License-Identifier: Apache-2.0

// Package e2enode holds the tests that run a kubelet on an emulated NUMA node
// and read cpusets, memory nodes and quotas back from its kernel.
//
// They have the build tag e2enode, because they boot a machine: run them with
// `make test-e2e-node`, which builds what they need first. One machine serves
// all of them; between tests the kubelet is stopped and pods, checkpoints and
// cgroups are removed.
//
// The packages below this one are the tools: guest boots a machine, node runs a
// kubelet on it, nodereport reads it, report shows it, witness and cpuwitness find
// out who runs on exclusive CPUs, numamaps and pagewitness on which NUMA nodes the
// pages of containers lie, deviceplugin offers devices, podrun is `make run`.
package e2enode

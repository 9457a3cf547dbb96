// SPDX-License-Identifier: Apache-2.0

// Package nodeconfig reads a KubeletConfiguration as the kubelet does, and tells
// what its resource managers would go by on a machine (Config.For), without a
// kubelet. The managers' part is the core's: cpuplan.Configure, memplan.Configure
// and placement.Configure are what the managers themselves call. What the kubelet
// does before that is here: defaults, feature gates, what is reserved.
package nodeconfig

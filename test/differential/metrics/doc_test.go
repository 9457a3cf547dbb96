// SPDX-License-Identifier: Apache-2.0

// Package metrics lets our managers and the kubelet's own admit the same pods and
// compares by how much the counters grow. Both sides use the counters of the
// kubelet, so they are run one after the other.
package metrics

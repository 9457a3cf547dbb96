// SPDX-License-Identifier: Apache-2.0

// Package allocation has the kubelet's own allocation manager, which admits pods
// and tries resizes, ask our managers.
package allocation

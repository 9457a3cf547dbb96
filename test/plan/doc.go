// SPDX-License-Identifier: Apache-2.0

// Package plan holds what package plan of the command line says beforehand against
// what the kubelet's managers, and the kubelet's own code around them, do.
package plan

// SPDX-License-Identifier: Apache-2.0

// Package scenario makes up nodes and what happens on them: a machine, the
// settings of the kubelet, and pods that come, go and live through restarts.
//
// A scenario is a function of a seed and of Limits, and plain data: it can be
// written as JSON for another process, and String writes it as a short script
// for people. It knows nothing of any manager, so that our packages can be run
// over it with or without the kubelet's own beside them.
package scenario

// SPDX-License-Identifier: Apache-2.0

// Package managers holds golden scripts in which the three managers work
// together as they do in a kubelet: admission, containers that start, restarts
// of the kubelet, pods that go. A script shows, after each step, what every
// container would be given.
package managers

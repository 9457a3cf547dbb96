// SPDX-License-Identifier: Apache-2.0

// Package memorymanager holds tests that run our memory manager and that of
// Kubernetes side by side on the same inputs.
package memorymanager

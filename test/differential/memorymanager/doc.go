// SPDX-License-Identifier: Apache-2.0

// Package memorymanager holds tests that run our memory manager and that of
// Kubernetes side by side on the same inputs.
//
// Where the two differ, a model in this package (model_test.go), which tries all
// sets of nodes and all parts of them, says what our rule is and by which fault
// upstream does something else; what no fault explains fails. How often each
// fault occurred is logged.
package memorymanager

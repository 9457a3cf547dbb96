// SPDX-License-Identifier: Apache-2.0

// Package topologymanager_test runs our topology manager beside upstream's, from
// the module k8s.io/kubernetes, on the same inputs.
//
// What must be equal: the affinity and the verdict of every policy for any
// hints; the whole admission of pods without pod-level resources, call by call,
// up to the first refusal; masks, their printed form and the order in which
// they are iterated. Where we differ on purpose, the test says which fault of
// upstream's it leaves out.
//
// Benchmarks with names ending in /ours and /upstream are measured in one run:
//
//	go test ./test/differential/topologymanager -run - -bench .
package topologymanager_test

// SPDX-License-Identifier: Apache-2.0

// Package model makes up nodes, pods and what happens to them, and holds what the
// three managers do against a plain model: what a pod was given it keeps.
//
// An event is a command of package script, as text. A run is a function of its
// seed; each node lives for some dozens of events, and then there is another one.
// After every event all that must always be so is looked at; the file check_test.go
// lists it. When something is not so, the events are made fewer and smaller for as
// long as the same thing goes wrong, and what is left is printed as a golden
// script, to be put under test/managers/testdata.
//
// That the test can fail is a test too: managers with a fault put into them, of
// the kinds that are known of the kubelet's own, must be found out.
//
// PODSLICE_EVENTS is how many events are made up, PODSLICE_SEED with what to begin.
package model

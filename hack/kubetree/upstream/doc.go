// SPDX-License-Identifier: Apache-2.0

// Package upstream judges our packages by Kubernetes' own tests: it runs the
// unit tests of the kubelet packages that use ours in a checkout with ours in
// it, compiles upstream's node e2e suite against them, and builds the kubelet
// for other systems.
//
// A failure counts against us only after it was looked at alone. The test is
// run again by itself, and if it fails again, on the same checkout without our
// packages. The verdict (verdict.go) is one of four: podslice's, upstream's own,
// a flake, or known. What is known, with the reason, is a file a release in
// baseline/.
//
// A package that does not compile, panics or times out is run again as a whole.
//
// Limits: tests run without cgo and without the race detector, both of which
// would mean compiling all of the kubelet's dependencies once more.
package upstream

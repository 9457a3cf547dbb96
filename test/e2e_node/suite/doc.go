// SPDX-License-Identifier: Apache-2.0

// Package suite runs upstream's node e2e suite, unmodified, on an emulated node,
// and says what came of each spec beside what came of it with upstream's own
// kubelet.
//
// The suite is one program that has an API server and etcd in it and starts the
// kubelet that lies beside it. It is started once for a batch of specs (Batches):
// starting it takes two minutes, and what a spec came to is kept when it is over, so
// that an interrupted run goes on from there. A spec that failed runs
// once more, alone, before it counts.
//
// What upstream's kubelet made of the specs is a file of this package, Record,
// which a run with that kubelet writes.
package suite

// SPDX-License-Identifier: Apache-2.0

// Package upgrade tests that podslice goes on with what kubelets of other
// releases have left on a node with running pods, and tells what these do with
// the state files of podslice. The files of other releases are in testdata,
// written by their own code; see testdata/README.md.
package upgrade

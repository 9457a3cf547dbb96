// SPDX-License-Identifier: Apache-2.0

// Package dropin puts this repository's packages into a Kubernetes source tree:
// the builder's copy of upstream's, or a fork that somebody carries.
//
// Under pkg/kubelet/cm, upstream's topologymanager, cpumanager and
// memorymanager are removed whole, ours take their place, and our other
// directories are added beside upstream's. Import paths are rewritten and the
// files formatted. A few lines are put into files that stay upstream's or the
// tree's owner's (edits.go). Nothing else in the tree is touched.
//
// A manifest in the tree (manifest.go) says which files are podslice's, with
// the digest of each, and which lines. It is what lets a later run replace exactly those, finish
// what was interrupted, and know a file that somebody else has changed.
//
// Install never destroys what nobody else has. A file that it would replace or
// remove must be podslice's own by the manifest or upstream's own by the release
// that the tree is of (refuse.go); anything else is listed and refused, before
// anything changes. Replace overrides that for forks that patch the three
// packages themselves, but not for changes that git does not have yet. An edit takes nothing
// away, so it is refused only where the lines around it are not as expected.
//
// Limits: the three packages are replaced together or not at all, and only in
// trees of the Kubernetes minor release whose interfaces they implement. Two
// runs in one tree at the same time are not guarded against.
package dropin

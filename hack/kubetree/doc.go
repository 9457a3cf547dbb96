// SPDX-License-Identifier: Apache-2.0

// Command kubetree builds a kubelet from an upstream Kubernetes module tree
// and this repository's packages under pkg/kubelet/cm.
//
// There are three steps, each a function of its own:
//
//   - fetch (fetch.go) copies the k8s.io/kubernetes module out of the module
//     cache into an output folder, because Go neither overlays nor edits files
//     beneath the cache;
//   - drop in (dropin.go) makes the tree's pkg/kubelet/cm hold our packages:
//     upstream's topologymanager, cpumanager and memorymanager are removed
//     whole, ours take their place, and our other directories are added beside
//     upstream's. It knows nothing of where the tree came from, so that it can
//     also install into a fork that somebody already carries;
//   - build (build.go) compiles cmd/kubelet with a copy of go.mod whose replace
//     directive points at the tree.
//
// Running it again when nothing has changed does nothing: a digest of every
// input is kept beside the binary (stamp.go). When something has changed, only
// files whose content differs are written, so that Go's build cache answers for
// the rest.
//
// Limits: it serves Kubernetes 1.37 only, whose manager interfaces the packages
// implement. It needs the module proxy (or a filled module cache) the first
// time.
package main

// SPDX-License-Identifier: Apache-2.0

// Package workload reads pods from manifests: Pods, whatever has a pod template,
// and lists of these, in YAML or JSON with any number of documents. It returns each
// pod as the API server would have it, and says what it added for that.
//
// A workload stands for the pods that it has at the same time: as many as it has
// replicas, of a Job as many as run in parallel, of a DaemonSet the one on this
// node, of a CronJob those of one run.
//
// Manifests come from anywhere, so sizes and numbers are bounded, and every error
// and note names the file, the document and the field.
package workload

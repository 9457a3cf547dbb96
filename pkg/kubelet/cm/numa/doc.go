// SPDX-License-Identifier: Apache-2.0

// Package numa holds what the managers share about NUMA nodes: sets of nodes,
// distances between them, hints (where a resource could come from) and the
// merge of the hints of all resources into the one affinity of a request.
//
// It is pure: it takes values and returns values, and imports the standard
// library alone.
package numa

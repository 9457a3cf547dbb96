// SPDX-License-Identifier: Apache-2.0

// Package numa holds what the managers share about NUMA nodes: sets of nodes,
// distances between them, hints (where a resource could come from) and the
// merge of the hints of all resources into the one affinity of a request.
//
// It is pure: it takes values and returns values, and imports the standard
// library alone.
//
// # What a merge looks for
//
// Take one hint of each resource. Together they stand for the intersection of
// their masks with the online nodes ("any" leaves it as it is), and that result
// is preferred when every hint is preferred and all masks are equal, compared
// as they were given, before the intersection. Among the results of all
// possible choices, empty ones aside, the best wins:
//
//   - a preferred one before one that is not;
//   - among preferred ones the narrowest, that is the one with the fewest nodes;
//   - among the others the one whose size comes nearest to T from below: T
//     itself, T-1, ..., 1, and only then T+1, T+2, ..., where T is the size that
//     the most demanding resource needs (each resource's smallest mask, and of
//     these the largest);
//   - among equal sizes the one with the smallest mean distance, when distances
//     are given;
//   - then, when a TieBreak asks for it, the one of which the most or the least is
//     allocated (usage.go);
//   - and then the smallest binary number.
//
// This is a total order on (preferred, mask), so the winner does not depend on
// the order of resources and hints. The kubelet finds the same winner by
// walking through all choices, 255^4 of them for 4 resources on 8 nodes.
//
// # How Merge finds it
//
// All masks of a preferred choice are equal. So the preferred results are what
// the resources' sets of preferred masks have in common, where a resource that
// has a preferred "any" is content with every mask: one pass over the hints
// (preferred.go). Only when there is no preferred result does anything else
// matter, and then just the set of masks that can be reached, not how: it is
// built resource by resource and never has more than 2^n masks (reach.go).
//
// # Locality
//
// With MergeOptions.Locality a result that is not preferred is chosen by another
// rule, which keeps CPUs and memory together whatever the devices say; it is
// written down in locality.go.
//
// # Limits
//
// Node IDs are 0 to 63, see MaxNodes. Exact for up to 16 nodes that all resources have in common; see reach.go for
// what is done beyond. A preferred result is always exact.
//
// # Example
//
// On nodes 0-1, cpu says {0} or {1}, preferred, or {0,1}; memory says {1},
// preferred, or {0,1}. {1} is preferred by both: the result is {1}, preferred.
// If memory said {0,1} alone, preferred, then nothing would be common; cpu
// needs 1 node, memory 2, so T is 2 and the result {0,1}, not preferred.
package numa

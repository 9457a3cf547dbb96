// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"regexp"
	"slices"
	"strings"
)

// batchSize bounds how many specs have to run alone after one that ends the suite.
// Starting the suite takes as long as two specs.
const batchSize = 40

// Batches cuts the specs into lists that run together. Those of a group, which
// configure the kubelet alike, stand together, otherwise in their order.
func Batches(specs []Spec) [][]Spec {
	var groups []string
	members := map[string][]Spec{}
	for _, s := range specs {
		group := s.group()
		if members[group] == nil {
			groups = append(groups, group)
		}
		members[group] = append(members[group], s)
	}
	var sorted []Spec
	for _, group := range groups {
		sorted = append(sorted, members[group]...)
	}
	return slices.Collect(slices.Chunk(sorted, batchSize))
}

// focus is the regular expression that selects exactly these specs. The suite
// matches it with its own name before that of the spec.
func focus(specs []Spec) string {
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = regexp.QuoteMeta(s.Name)
	}
	return " (" + strings.Join(names, "|") + ")$"
}

// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"regexp"
	"strings"
)

// batchSize bounds what is lost when a run is interrupted. A spec takes a minute
// or two, starting the suite half a minute.
const batchSize = 8

// Batches cuts the specs into lists that run together, in their order. No batch
// has specs of two groups, which configure the kubelet in different ways.
func Batches(specs []Spec) [][]Spec {
	var batches [][]Spec
	var batch []Spec
	for _, s := range specs {
		if len(batch) == batchSize || len(batch) > 0 && batch[0].group() != s.group() {
			batches = append(batches, batch)
			batch = nil
		}
		batch = append(batch, s)
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches
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

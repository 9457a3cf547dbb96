// SPDX-License-Identifier: Apache-2.0

package numa

// Hint says where a resource could come from: from the nodes Nodes, or, when
// Any is set, from anywhere. Preferred marks a hint that uses as few nodes as
// the request needs on an idle machine.
type Hint struct {
	Nodes     Set
	Any       bool
	Preferred bool
}

// Resource is what one provider says about one resource of a request. A
// resource that cannot be had at all has no Hints and NoPreference unset; one
// whose placement does not matter has NoPreference set.
type Resource struct {
	Name         string
	NoPreference bool
	Hints        []Hint
}

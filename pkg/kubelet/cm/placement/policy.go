// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Scope is the unit that is aligned. Its values are those of the kubelet's
// topologyManagerScope, and "none".
type Scope string

const (
	ScopeNone      Scope = "none"
	ScopeContainer Scope = "container"
	ScopePod       Scope = "pod"
)

// Strictness is what is demanded of an affinity. Its values are those of the
// kubelet's topologyManagerPolicy.
type Strictness string

const (
	// None does not align at all.
	None Strictness = "none"
	// BestEffort takes the best affinity that there is.
	BestEffort Strictness = "best-effort"
	// Restricted refuses an affinity that is not preferred.
	Restricted Strictness = "restricted"
	// SingleNUMANode refuses everything but one node.
	SingleNUMANode Strictness = "single-numa-node"
)

// Policy decides on the affinity of one container or pod. It is immutable.
type Policy struct {
	strictness Strictness
	nodes      numa.Set
	distances  *numa.Distances
}

// NewPolicy returns a policy for a machine with the given online nodes.
// Distances are nil unless closer nodes are to be preferred among equally many;
// a single node is as close as can be, so single-numa-node does without them.
func NewPolicy(strictness Strictness, nodes numa.Set, distances *numa.Distances) (Policy, error) {
	switch strictness {
	case None, BestEffort, Restricted:
	case SingleNUMANode:
		distances = nil
	default:
		return Policy{}, fmt.Errorf("unknown policy: %q", strictness)
	}
	return Policy{strictness: strictness, nodes: nodes, distances: distances}, nil
}

// Strictness returns what the policy demands.
func (p Policy) Strictness() Strictness { return p.strictness }

// Decision is what a policy says to the hints of all resources.
type Decision struct {
	// Affinity is where the resources are to come from.
	Affinity numa.Hint
	// Admit is false when the policy refuses this affinity.
	Admit bool
	// Objections say which resources kept the affinity from being preferred.
	Objections []numa.Objection
}

// Aligns reports whether hints are of use to the policy at all.
func (p Policy) Aligns() bool { return p.strictness != None && p.strictness != "" }

// Decide merges the hints and applies the policy to the result.
func (p Policy) Decide(resources []numa.Resource) Decision {
	if !p.Aligns() {
		return Decision{Affinity: numa.Hint{Any: true}, Admit: true}
	}
	single := p.strictness == SingleNUMANode
	merged := numa.Merge(p.nodes, resources, numa.MergeOptions{SingleNode: single, Distances: p.distances})
	d := Decision{
		Affinity:   merged.Hint,
		Admit:      merged.Hint.Preferred || p.strictness == BestEffort,
		Objections: merged.Objections,
	}
	// All nodes cannot be meant by a policy that knows single ones only: nobody
	// cares. This is so on a machine with one node, too.
	if single && merged.Hint.Nodes == p.nodes {
		d.Affinity = numa.Hint{Any: true, Preferred: merged.Hint.Preferred}
	}
	return d
}

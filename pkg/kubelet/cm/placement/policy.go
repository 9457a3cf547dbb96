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

// Options are what may be asked of a policy beyond its strictness.
type Options struct {
	// Closest, if given, prefers closer nodes among equally many. A single node
	// is as close as can be, so single-numa-node does without it.
	Closest *numa.Distances
	// TieBreak decides between nodes that are equally good.
	TieBreak numa.TieBreak
	// Locality, if given, keeps CPUs and memory together, near the devices,
	// where not everything can be aligned. It matters only to policies that
	// admit such a pod.
	Locality *numa.Distances
}

// Policy decides on the affinity of one container or pod. It is immutable.
type Policy struct {
	strictness Strictness
	nodes      numa.Set
	options    Options
}

// NewPolicy returns a policy for a machine with the given online nodes.
func NewPolicy(strictness Strictness, nodes numa.Set, options Options) (Policy, error) {
	switch strictness {
	case None, BestEffort, Restricted, SingleNUMANode:
	default:
		return Policy{}, fmt.Errorf("unknown policy: %q", strictness)
	}
	return Policy{strictness: strictness, nodes: nodes, options: options}, nil
}

// Strictness returns what the policy demands.
func (p Policy) Strictness() Strictness { return p.strictness }

// With is the policy with another strictness, and the same options.
func (p Policy) With(s Strictness) Policy {
	p.strictness = s
	return p
}

// Nodes returns the machine's online nodes.
func (p Policy) Nodes() numa.Set { return p.nodes }

// Decision is what a policy says to the hints of all resources.
type Decision struct {
	// Affinity is where the resources are to come from.
	Affinity numa.Hint
	// Admit is false when the policy refuses this affinity.
	Admit bool
	// Objections say which resources kept the affinity from being preferred,
	// when it is refused.
	Objections []numa.Objection
}

// Aligns reports whether hints are of use to the policy at all.
func (p Policy) Aligns() bool { return p.strictness != None && p.strictness != "" }

// RunnerUp is the affinity that came next after the one of the decision, and
// whether there is any.
func (p Policy) RunnerUp(resources []numa.Resource, usage func() *numa.Usage, d Decision) (numa.Hint, bool) {
	if !p.Aligns() || d.Affinity.Any {
		return numa.Hint{}, false
	}
	return numa.RunnerUp(p.nodes, resources, p.mergeOptions(usage), d.Affinity.Nodes)
}

func (p Policy) mergeOptions(usage func() *numa.Usage) numa.MergeOptions {
	opts := numa.MergeOptions{Locality: p.options.Locality, TieBreak: p.options.TieBreak}
	if opts.SingleNode = p.strictness == SingleNUMANode; !opts.SingleNode {
		opts.Distances = p.options.Closest
	}
	if usage != nil && opts.TieBreak != numa.Lowest {
		opts.Usage = usage()
	}
	return opts
}

// Decide merges the hints and applies the policy to the result. It asks for the
// usage of the nodes only if that can make a difference; nil stands for an idle
// machine.
func (p Policy) Decide(resources []numa.Resource, usage func() *numa.Usage) Decision {
	if !p.Aligns() {
		return Decision{Affinity: numa.Hint{Any: true}, Admit: true}
	}
	single := p.strictness == SingleNUMANode
	affinity := numa.Merge(p.nodes, resources, p.mergeOptions(usage))
	d := Decision{Affinity: affinity, Admit: affinity.Preferred || p.strictness == BestEffort}
	if !d.Admit {
		d.Objections = numa.Objections(p.nodes, resources, single)
	}
	// All nodes cannot be meant by a policy that knows single ones only: nobody
	// cares. This is so on a machine with one node, too.
	if single && affinity.Nodes == p.nodes {
		d.Affinity = numa.Hint{Any: true, Preferred: affinity.Preferred}
	}
	return d
}

// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Names of the policy options.
const (
	// OptionPreferClosest (a boolean) prefers nodes that are close to each other
	// among equally many. It needs the distances of all nodes.
	OptionPreferClosest = "prefer-closest-numa-nodes"
	// OptionMaxNodes (a number from MinMaxNodes on) is how many nodes a machine may
	// have for the manager to start on it.
	OptionMaxNodes = "max-allowable-numa-nodes"
	// OptionTieBreak (a TieBreak; alpha) chooses between nodes that are equally
	// good. The kubelet's own package does not have it.
	OptionTieBreak = "numa-tie-break"
	// OptionLocality (a boolean; alpha) keeps CPUs and memory together on as few
	// nodes as possible where not everything can be aligned. It needs the
	// distances of all nodes. The kubelet's own package does not have it.
	OptionLocality = "best-effort-locality"
)

const (
	// DefaultMaxNodes is all that a mask can hold: many nodes are not slow, so
	// there is no reason to refuse them.
	DefaultMaxNodes = numa.MaxNodes
	// MinMaxNodes is the smallest limit that may be configured, as in the
	// kubelet's own package.
	MinMaxNodes = 8
)

// alphaGate is the feature gate for alpha options, as messages name it.
const alphaGate = "TopologyManagerPolicyAlphaOptions"

// TieBreak is a value of the option numa-tie-break.
type TieBreak string

// Package numa says what these mean. The zero value is TieBreakLowest.
const (
	TieBreakLowest         TieBreak = "lowest"
	TieBreakMostAllocated  TieBreak = "most-allocated"
	TieBreakLeastAllocated TieBreak = "least-allocated"
)

// Core is the value in the terms of package numa.
func (t TieBreak) Core() numa.TieBreak {
	switch t {
	case TieBreakMostAllocated:
		return numa.MostAllocated
	case TieBreakLeastAllocated:
		return numa.LeastAllocated
	}
	return numa.Lowest
}

// PolicyOptions are the policy options as they are configured, before the
// machine is known.
type PolicyOptions struct {
	PreferClosestNUMA     bool
	MaxAllowableNUMANodes int
	NUMATieBreak          TieBreak
	BestEffortLocality    bool
}

// OptionNames lists the options, sorted.
func OptionNames() []string {
	return []string{OptionLocality, OptionMaxNodes, OptionTieBreak, OptionPreferClosest}
}

// CheckOption fails for an option that does not exist, and for an alpha option
// where those may not be used.
func CheckOption(name string, alpha bool) error {
	switch name {
	case OptionPreferClosest, OptionMaxNodes:
		return nil
	case OptionTieBreak, OptionLocality:
		if !alpha {
			return fmt.Errorf("topology manager policy alpha-level options not enabled, but option %q provided: it needs the feature gate %s", name, alphaGate)
		}
		return nil
	}
	return fmt.Errorf("unknown Topology Manager Policy option: %q", name)
}

// ParseOptions reads the options of a policy.
func ParseOptions(values map[string]string, alpha bool) (PolicyOptions, error) {
	options := PolicyOptions{MaxAllowableNUMANodes: DefaultMaxNodes}
	// Sorted, so that of two mistakes the same one is always reported.
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := CheckOption(name, alpha); err != nil {
			return options, err
		}
		if err := options.set(name, values[name]); err != nil {
			return options, err
		}
	}
	return options, nil
}

func (o *PolicyOptions) set(name, text string) (err error) {
	switch name {
	case OptionPreferClosest:
		if o.PreferClosestNUMA, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("bad value for option %q: %w", name, err)
		}
	case OptionTieBreak:
		allowed := []TieBreak{TieBreakLowest, TieBreakMostAllocated, TieBreakLeastAllocated}
		if o.NUMATieBreak = TieBreak(text); !slices.Contains(allowed, o.NUMATieBreak) {
			return fmt.Errorf("bad value for option %q: %q, want one of %q", name, text, allowed)
		}
	case OptionLocality:
		if text != "true" && text != "false" {
			return fmt.Errorf("bad value for option %q: %q, want \"true\" or \"false\"", name, text)
		}
		o.BestEffortLocality = text == "true"
	case OptionMaxNodes:
		limit, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("unable to convert policy option to integer %q: %w", name, err)
		}
		if limit < MinMaxNodes {
			return fmt.Errorf("the minimum value of %q should not be less than %v", name, MinMaxNodes)
		}
		o.MaxAllowableNUMANodes = limit
	}
	return nil
}

// NeedsDistances names an option that is on and needs distances, if any.
func (o PolicyOptions) NeedsDistances() string {
	switch {
	case o.PreferClosestNUMA:
		return OptionPreferClosest
	case o.BestEffortLocality:
		return OptionLocality
	}
	return ""
}

// MissingDistances is the error for a node without distances when an option
// needs them.
type MissingDistances struct {
	Node   int
	Option string
}

func (e MissingDistances) Error() string {
	return fmt.Sprintf("error getting NUMA distances from cadvisor: NUMA node %d has none, and the %q policy option needs them", e.Node, e.Option)
}

// CheckNodes fails for IDs that are out of range and, if an option needs them,
// for distances that are not complete; rows has each node's at the index of its
// ID.
//
// Node IDs must lie within 0-63, however many nodes there are: the device
// manager, which is not ours, exchanges sets of nodes with the topology manager
// as masks of 64 bits, and bit i is node i. Linux can give higher IDs.
func (o PolicyOptions) CheckNodes(ids []int, rows [][]uint64) error {
	option := o.NeedsDistances()
	for i, id := range ids {
		if _, err := numa.NewSet(id); err != nil {
			return fmt.Errorf("%w: the kubelet's managers exchange sets of NUMA nodes as masks of %d bits; of the topology manager, only policy %q works on this machine",
				err, numa.MaxNodes, None)
		}
		if option != "" && rows[i] == nil {
			return MissingDistances{id, option}
		}
	}
	if option != "" {
		if _, err := numa.NewDistances(ids, rows); err != nil {
			return fmt.Errorf("the %q policy option needs the distances of all NUMA nodes: %w", option, err)
		}
	}
	return nil
}

// CheckCount fails for a machine with more nodes than are allowed.
func (o PolicyOptions) CheckCount(nodes int) error {
	if nodes > o.MaxAllowableNUMANodes {
		return fmt.Errorf("unsupported on machines with more than %v NUMA Nodes: this one has %d, see the policy option %q", o.MaxAllowableNUMANodes, nodes, OptionMaxNodes)
	}
	return nil
}

// Configuration is what the kubelet's configuration says of the topology
// manager.
type Configuration struct {
	Policy, Scope string
	// Options are the policy's, by name. Alpha is whether alpha options may be
	// used.
	Options map[string]string
	Alpha   bool
}

// Configured is a configuration that was checked against a machine.
type Configured struct {
	Policy  Policy
	Scope   Scope
	Options PolicyOptions
}

// Configure checks the configuration against the machine, which has nodes with
// these IDs and, at the same index, their distances, nil where these are not
// told. Under policy none, scope, options and nodes do not matter and are not
// looked at.
func Configure(c Configuration, ids []int, rows [][]uint64) (Configured, error) {
	if c.Policy == string(None) {
		return Configured{Policy: Policy{strictness: None}, Scope: ScopeNone}, nil
	}
	options, err := ParseOptions(c.Options, c.Alpha)
	if err != nil {
		return Configured{}, err
	}
	if err := options.CheckNodes(ids, rows); err != nil {
		return Configured{}, fmt.Errorf("cannot discover NUMA topology: %w", err)
	}
	if err := options.CheckCount(len(ids)); err != nil {
		return Configured{}, err
	}
	decided := Options{TieBreak: options.NUMATieBreak.Core()}
	if options.NeedsDistances() != "" {
		distances, err := numa.NewDistances(ids, rows)
		if err != nil {
			return Configured{}, err
		}
		if options.PreferClosestNUMA {
			decided.Closest = distances
		}
		if options.BestEffortLocality {
			decided.Locality = distances
		}
	}
	policy, err := NewPolicy(Strictness(c.Policy), numa.SetOf(ids...), decided)
	if err != nil {
		return Configured{}, err
	}
	scope := Scope(c.Scope)
	if scope != ScopeContainer && scope != ScopePod {
		return Configured{}, fmt.Errorf("unknown scope: %q", c.Scope)
	}
	return Configured{policy, scope, options}, nil
}

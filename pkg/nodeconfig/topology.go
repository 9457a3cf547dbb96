// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nearest"
)

var (
	topologyPolicies = []string{string(placement.None), string(placement.BestEffort), string(placement.Restricted), string(placement.SingleNUMANode)}
	topologyScopes   = []string{string(placement.ScopeContainer), string(placement.ScopePod)}
)

const topologyOptions = "topologyManagerPolicyOptions"

// configureTopology makes the topology manager's part of the node.
func (c *Config) configureTopology(n *Node) (found Findings) {
	k := &c.Kubelet
	ids, rows := nodesOf(n.Machine)
	alpha := c.Gates.On(TopologyOptionsAlpha)
	configured, err := placement.Configure(placement.Configuration{
		Policy: k.TopologyManagerPolicy, Scope: k.TopologyManagerScope, Options: k.TopologyManagerPolicyOptions, Alpha: alpha,
	}, ids, rows)
	if err == nil {
		n.Topology = configured
		return nil
	}
	if !slices.Contains(topologyPolicies, k.TopologyManagerPolicy) || !slices.Contains(topologyScopes, k.TopologyManagerScope) {
		return nil // checkKubelet tells it, and what is allowed
	}
	good := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(k.TopologyManagerPolicyOptions)) {
		one := map[string]string{name: k.TopologyManagerPolicyOptions[name]}
		if err := placement.CheckOption(name, alpha); err != nil {
			found.refuse(topologyOptions+"."+name, topologyOptionFix(name), "%v", err)
		}
		if placement.CheckOption(name, true) != nil {
			continue
		}
		if _, err := placement.ParseOptions(one, true); err != nil {
			found.refuse(topologyOptions+"."+name, topologyValueFix(name, one[name], len(ids)), "%v", err)
		} else {
			maps.Copy(good, one)
		}
	}
	options, _ := placement.ParseOptions(good, true)
	if err := outside(n.Machine); err != nil {
		found.refuse("topologyManagerPolicy", string(placement.None), "%v", err)
		return found
	}
	if err := options.CheckNodes(ids, rows); err != nil {
		found.refuse(topologyOptions+"."+options.NeedsDistances(), "", "%v", err)
	}
	if err := options.CheckCount(len(ids)); err != nil {
		found.refuse(topologyOptions+"."+placement.OptionMaxNodes, strconv.Quote(strconv.Itoa(len(ids))), "%v", err)
	}
	found.orElse("topologyManagerPolicy", err)
	return found
}

// outside says which of the machine's NUMA nodes the managers cannot have in their
// masks.
func outside(m machine.Machine) error {
	ids, rows := nodesOf(m)
	return placement.PolicyOptions{}.CheckNodes(ids, rows)
}

func topologyOptionFix(name string) string {
	if placement.CheckOption(name, true) != nil {
		return orRemove(nearest.Name(name, slices.Values(placement.OptionNames())))
	}
	return fmt.Sprintf("featureGates.%s: true", TopologyOptionsAlpha)
}

// topologyValueFix is a value of an option that would be right in the place of one
// that is not, on a machine with so many NUMA nodes.
func topologyValueFix(name, value string, nodes int) string {
	if name == placement.OptionMaxNodes {
		return strconv.Quote(strconv.Itoa(max(nodes, upstreamMaxNodes)))
	}
	for _, right := range []string{"true", "false"} {
		if _, err := placement.ParseOptions(map[string]string{name: right}, true); err != nil {
			return "" // the error lists the values
		}
	}
	return boolFix(value)
}

// boolFix is what somebody meant who wrote something else than true or false.
func boolFix(value string) string {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "yes", "y", "on", "enable", "enabled", "true":
		return `"true"`
	case "no", "n", "off", "disable", "disabled", "false":
		return `"false"`
	}
	return `"true" or "false"`
}

// upstreamMaxNodes is how many NUMA nodes Kubernetes' own topology manager takes
// when it is not told otherwise.
const upstreamMaxNodes = 8

// adviseTopology finds what the topology manager would not do.
func (c *Config) adviseTopology(n *Node) (found Findings) {
	k := &c.Kubelet
	if k.TopologyManagerPolicy == string(placement.None) {
		if k.TopologyManagerScope == string(placement.ScopePod) {
			found.warn("topologyManagerScope", "topologyManagerPolicy: best-effort, restricted or single-numa-node", "it is pod, but topologyManagerPolicy is none: nothing is aligned, and each container is placed by itself")
		}
		for _, name := range slices.Sorted(maps.Keys(k.TopologyManagerPolicyOptions)) {
			found.warn(topologyOptions+"."+name, "topologyManagerPolicy: best-effort, restricted or single-numa-node", "topologyManagerPolicy is none, which does not look at options")
		}
		return found
	}
	if !slices.Contains(topologyPolicies, k.TopologyManagerPolicy) {
		return nil
	}
	if k.CPUManagerPolicy == cpuplan.PolicyNone && k.MemoryManagerPolicy == memplan.PolicyNone {
		found.note("topologyManagerPolicy", "it is %s, but cpuManagerPolicy is none and memoryManagerPolicy is None: only devices are aligned", k.TopologyManagerPolicy)
	}
	if nodes := len(n.Machine.Nodes); nodes > upstreamMaxNodes && outside(n.Machine) == nil && k.TopologyManagerPolicyOptions[placement.OptionMaxNodes] == "" {
		found.note(topologyOptions+"."+placement.OptionMaxNodes, "the machine has %d NUMA nodes: Kubernetes' own kubelet does not start on more than %d unless this option allows it; podslice does", nodes, upstreamMaxNodes)
	}
	useless := func(option, format string, args ...any) {
		found.warn(topologyOptions+"."+option, "remove it", "it has no effect: "+format, args...)
	}
	options := n.Topology.Options
	for _, option := range []struct {
		name string
		on   bool
	}{
		{placement.OptionPreferClosest, options.PreferClosestNUMA}, {placement.OptionLocality, options.BestEffortLocality},
		{placement.OptionTieBreak, options.NUMATieBreak != "" && options.NUMATieBreak != placement.TieBreakLowest},
	} {
		switch {
		case !option.on:
		case len(n.Machine.Nodes) < 2:
			useless(option.name, "the machine has one NUMA node")
		case option.name == placement.OptionPreferClosest && k.TopologyManagerPolicy == string(placement.SingleNUMANode):
			useless(option.name, "topologyManagerPolicy is %s, and one node is as close as can be", placement.SingleNUMANode)
		case option.name == placement.OptionPreferClosest && equallyFar(n):
			useless(option.name, "all NUMA nodes of the machine are equally far from each other")
		case option.name == placement.OptionLocality && k.TopologyManagerPolicy != string(placement.BestEffort):
			useless(option.name, "topologyManagerPolicy is %s, which refuses what this option would place", k.TopologyManagerPolicy)
		}
	}
	return found
}

// equallyFar reports whether any two sets of as many NUMA nodes are equally close.
func equallyFar(n *Node) bool {
	for i, node := range n.Machine.Nodes {
		for j, distance := range node.Distances {
			first := n.Machine.Nodes[0].Distances
			if i == j && distance != first[0] || i != j && distance != first[1] {
				return false
			}
		}
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"maps"
	"slices"

	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// Names of the policies; package placement says what they mean.
const (
	PolicyNone           string = string(placement.None)
	PolicyBestEffort     string = string(placement.BestEffort)
	PolicyRestricted     string = string(placement.Restricted)
	PolicySingleNumaNode string = string(placement.SingleNUMANode)
)

// NewNonePolicy returns the policy that admits everything without affinity.
func NewNonePolicy() Policy { return newPolicy(placement.None, nil, PolicyOptions{}) }

// NewBestEffortPolicy returns the policy that admits whatever the best affinity
// is.
func NewBestEffortPolicy(numaInfo *NUMAInfo, opts PolicyOptions) Policy {
	return newPolicy(placement.BestEffort, numaInfo, opts)
}

// NewRestrictedPolicy returns the policy that admits a preferred affinity.
func NewRestrictedPolicy(numaInfo *NUMAInfo, opts PolicyOptions) Policy {
	return newPolicy(placement.Restricted, numaInfo, opts)
}

// NewSingleNumaNodePolicy returns the policy that admits an affinity to one
// node.
func NewSingleNumaNodePolicy(numaInfo *NUMAInfo, opts PolicyOptions) Policy {
	return newPolicy(placement.SingleNUMANode, numaInfo, opts)
}

// IsAlignmentGuaranteed reports whether a pod that the policy admits has
// everything on one node.
func IsAlignmentGuaranteed(p Policy) bool { return p != nil && p.Name() == PolicySingleNumaNode }

// corePolicy is a policy of package placement in the kubelet's terms.
type corePolicy struct {
	placement.Policy
}

func newPolicy(strictness placement.Strictness, numaInfo *NUMAInfo, opts PolicyOptions) Policy {
	p, err := placement.NewPolicy(strictness, numaInfo.set(), numaInfo.coreDistances(opts))
	if err != nil {
		panic(err) // only the constants above come here
	}
	return corePolicy{p}
}

func (p corePolicy) Name() string { return string(p.Strictness()) }

func (p corePolicy) Merge(logger klog.Logger, providersHints []map[string][]TopologyHint) (TopologyHint, bool) {
	if !p.Aligns() {
		return TopologyHint{}, true
	}
	var resources []numa.Resource
	for _, hints := range providersHints {
		resources = append(resources, resourcesOf(hints)...)
	}
	d := p.Decide(resources)
	logger.V(5).Info("Merged hints", "policy", p.Name(), "affinity", d.Affinity, "admit", d.Admit, "objections", d.Objections)
	return HintFromNUMA(d.Affinity), d.Admit
}

// resourcesOf turns one provider's answer into the core's terms, by resource
// name. An answer without resources says that nothing matters, and so does a
// list of no resources.
func resourcesOf(hints map[string][]TopologyHint) []numa.Resource {
	resources := make([]numa.Resource, 0, len(hints))
	for _, name := range slices.Sorted(maps.Keys(hints)) {
		r := numa.Resource{Name: name, NoPreference: hints[name] == nil}
		r.Hints = make([]numa.Hint, len(hints[name]))
		for i, hint := range hints[name] {
			r.Hints[i] = HintToNUMA(hint)
		}
		resources = append(resources, r)
	}
	return resources
}

// foreignPolicy lets a Policy that is not ours decide, without objections.
type foreignPolicy struct {
	Policy
	logger klog.Logger
}

// deciderOf returns the core's view of any policy; none for nil.
func deciderOf(logger klog.Logger, p Policy) placement.Decider {
	switch p := p.(type) {
	case nil:
		return placement.Policy{}
	case corePolicy:
		return p.Policy
	default:
		return foreignPolicy{p, logger}
	}
}

func (f foreignPolicy) Aligns() bool { return f.Name() != PolicyNone }

func (f foreignPolicy) Decide(resources []numa.Resource) placement.Decision {
	var hints []map[string][]TopologyHint
	for _, r := range resources {
		list := make([]TopologyHint, 0, len(r.Hints))
		for _, h := range r.Hints {
			list = append(list, HintFromNUMA(h))
		}
		if r.NoPreference {
			list = nil
		}
		hints = append(hints, map[string][]TopologyHint{r.Name: list})
	}
	hint, admit := f.Merge(f.logger, hints)
	return placement.Decision{Affinity: HintToNUMA(hint), Admit: admit}
}

// HintMerger merges lists of hints, one per resource, without a policy's
// verdict. An empty list leaves nothing to choose.
type HintMerger struct {
	NUMAInfo *NUMAInfo
	Hints    [][]TopologyHint

	distances *numa.Distances
}

// NewHintMerger returns the merger that the policy would use.
func NewHintMerger(numaInfo *NUMAInfo, hints [][]TopologyHint, policyName string, opts PolicyOptions) HintMerger {
	m := HintMerger{NUMAInfo: numaInfo, Hints: hints}
	if policyName != PolicySingleNumaNode {
		m.distances = numaInfo.coreDistances(opts)
	}
	return m
}

// Merge returns the best hint.
func (m HintMerger) Merge() TopologyHint {
	all := m.NUMAInfo.set()
	resources := make([]numa.Resource, 0, len(m.Hints))
	for _, list := range m.Hints {
		if len(list) == 0 {
			return TopologyHint{NUMANodeAffinity: bitmask.FromSet(all)}
		}
		resources = append(resources, resourcesOf(map[string][]TopologyHint{"": list})...)
	}
	return HintFromNUMA(numa.Merge(all, resources, numa.MergeOptions{Distances: m.distances}).Hint)
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"slices"
	"sync"

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
	p, err := placement.NewPolicy(strictness, numaInfo.set(), placement.Options{
		Closest:  numaInfo.coreDistances(opts.PreferClosestNUMA),
		Locality: numaInfo.coreDistances(opts.BestEffortLocality),
		TieBreak: opts.NUMATieBreak.Core(),
	})
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
	t := translations.Get().(*translation)
	defer translations.Put(t)
	d := p.Decide(t.of(providersHints), nil)
	if logger := logger.V(5); logger.Enabled() { // its arguments cost memory
		logger.Info("Merged hints", "policy", p.Name(), "affinity", d.Affinity, "admit", d.Admit, "objections", d.Objections)
	}
	return HintFromNUMA(d.Affinity), d.Admit
}

// translation is the memory in which answers are put into the core's terms,
// used again by the next merge.
type translation struct {
	resources []numa.Resource
	hints     []numa.Hint
	names     []string
}

var translations = sync.Pool{New: func() any { return new(translation) }}

// of returns the resources of all answers, each answer's by name. An answer
// without resources says that nothing matters, and so does a list of no
// resources. The result is good until the next call.
func (t *translation) of(answers []map[string][]TopologyHint) []numa.Resource {
	count := 0
	for _, hints := range answers {
		for _, list := range hints {
			count += len(list)
		}
	}
	// Large enough at once: parts of it are handed out.
	t.hints = slices.Grow(t.hints[:0], count)
	t.resources = t.resources[:0]
	for _, hints := range answers {
		t.names = t.names[:0]
		for name := range hints {
			t.names = append(t.names, name)
		}
		slices.Sort(t.names)
		for _, name := range t.names {
			from := len(t.hints)
			for _, hint := range hints[name] {
				t.hints = append(t.hints, HintToNUMA(hint))
			}
			t.resources = append(t.resources, numa.Resource{Name: name, NoPreference: hints[name] == nil, Hints: t.hints[from:len(t.hints):len(t.hints)]})
		}
	}
	return t.resources
}

// resourcesOf is one answer in the core's terms, in memory of its own.
func resourcesOf(hints map[string][]TopologyHint) []numa.Resource {
	return new(translation).of([]map[string][]TopologyHint{hints})
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

func (f foreignPolicy) Decide(resources []numa.Resource, _ func() *numa.Usage) placement.Decision {
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
		m.distances = numaInfo.coreDistances(opts.PreferClosestNUMA)
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
	return HintFromNUMA(numa.Merge(all, resources, numa.MergeOptions{Distances: m.distances}))
}

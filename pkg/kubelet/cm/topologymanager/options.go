// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

const (
	// PreferClosestNUMANodes (a boolean) prefers nodes that are close to each
	// other among equally many. It needs the distances of all nodes.
	PreferClosestNUMANodes string = "prefer-closest-numa-nodes"
	// MaxAllowableNUMANodes (a number from 8 on) is how many nodes a machine may
	// have for the manager to start on it.
	MaxAllowableNUMANodes string = "max-allowable-numa-nodes"
	// NUMATieBreak (a TieBreak; alpha) chooses between nodes that are equally
	// good. The kubelet's own package does not have it.
	NUMATieBreak string = "numa-tie-break"
	// BestEffortLocality (a boolean; alpha) keeps CPUs and memory together on as
	// few nodes as possible where not everything can be aligned. It needs the
	// distances of all nodes. The kubelet's own package does not have it.
	BestEffortLocality string = "best-effort-locality"
)

const (
	// defaultMaxAllowableNUMANodes is all that a mask can hold: many nodes are
	// not slow, so there is no reason to refuse them.
	defaultMaxAllowableNUMANodes = numa.MaxNodes
	// minMaxAllowableNUMANodes is the smallest limit that may be configured, as
	// in the kubelet's own package.
	minMaxAllowableNUMANodes = 8
)

// TieBreak is a value of the option numa-tie-break.
type TieBreak string

// Package numa says what these mean. The zero value is TieBreakLowest.
const (
	TieBreakLowest         TieBreak = "lowest"
	TieBreakMostAllocated  TieBreak = "most-allocated"
	TieBreakLeastAllocated TieBreak = "least-allocated"
)

func (t TieBreak) core() numa.TieBreak {
	switch t {
	case TieBreakMostAllocated:
		return numa.MostAllocated
	case TieBreakLeastAllocated:
		return numa.LeastAllocated
	}
	return numa.Lowest
}

// PolicyOptions are the options of the policies other than none.
type PolicyOptions struct {
	PreferClosestNUMA     bool
	MaxAllowableNUMANodes int
	NUMATieBreak          TieBreak
	BestEffortLocality    bool
}

// needsDistances names an option that is on and needs distances, if any.
func (o PolicyOptions) needsDistances() string {
	switch {
	case o.PreferClosestNUMA:
		return PreferClosestNUMANodes
	case o.BestEffortLocality:
		return BestEffortLocality
	}
	return ""
}

// CheckPolicyOptionAvailable returns an error for an option that does not exist
// or whose feature gate is off.
func CheckPolicyOptionAvailable(option string) error {
	switch option {
	case PreferClosestNUMANodes, MaxAllowableNUMANodes:
		return nil
	case NUMATieBreak, BestEffortLocality:
		if !utilfeature.DefaultFeatureGate.Enabled(features.TopologyManagerPolicyAlphaOptions) {
			return fmt.Errorf("topology manager policy alpha-level options not enabled, but option %q provided: it needs the feature gate %s", option, features.TopologyManagerPolicyAlphaOptions)
		}
		return nil
	}
	return fmt.Errorf("unknown Topology Manager Policy option: %q", option)
}

// NewPolicyOptions reads the options of the KubeletConfiguration.
func NewPolicyOptions(_ klog.Logger, policyOptions map[string]string) (PolicyOptions, error) {
	opts := PolicyOptions{MaxAllowableNUMANodes: defaultMaxAllowableNUMANodes}
	// Sorted, so that of two mistakes the same one is always reported.
	for _, name := range slices.Sorted(maps.Keys(policyOptions)) {
		if err := opts.set(name, policyOptions[name]); err != nil {
			return opts, err
		}
	}
	return opts, nil
}

func (o *PolicyOptions) set(name, text string) (err error) {
	if err := CheckPolicyOptionAvailable(name); err != nil {
		return err
	}
	switch name {
	case PreferClosestNUMANodes:
		if o.PreferClosestNUMA, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("bad value for option %q: %w", name, err)
		}
	case NUMATieBreak:
		allowed := []TieBreak{TieBreakLowest, TieBreakMostAllocated, TieBreakLeastAllocated}
		if o.NUMATieBreak = TieBreak(text); !slices.Contains(allowed, o.NUMATieBreak) {
			return fmt.Errorf("bad value for option %q: %q, want one of %q", name, text, allowed)
		}
	case BestEffortLocality:
		if text != "true" && text != "false" {
			return fmt.Errorf("bad value for option %q: %q, want \"true\" or \"false\"", name, text)
		}
		o.BestEffortLocality = text == "true"
	case MaxAllowableNUMANodes:
		limit, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("unable to convert policy option to integer %q: %w", name, err)
		}
		if limit < minMaxAllowableNUMANodes {
			return fmt.Errorf("the minimum value of %q should not be less than %v", name, minMaxAllowableNUMANodes)
		}
		o.MaxAllowableNUMANodes = limit
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/klog/v2"
)

const (
	// PreferClosestNUMANodes (a boolean) prefers nodes that are close to each
	// other among equally many. It needs the distances of all nodes.
	PreferClosestNUMANodes string = "prefer-closest-numa-nodes"
	// MaxAllowableNUMANodes (a number from 8 on) is how many nodes a machine may
	// have for the manager to start on it.
	MaxAllowableNUMANodes string = "max-allowable-numa-nodes"
)

// defaultMaxAllowableNUMANodes is the default of MaxAllowableNUMANodes and the
// smallest value. It is kept for configurations that count on it: here, many
// nodes are not slow.
const defaultMaxAllowableNUMANodes = 8

// PolicyOptions are the options of the policies other than none.
type PolicyOptions struct {
	PreferClosestNUMA     bool
	MaxAllowableNUMANodes int
}

// CheckPolicyOptionAvailable returns an error for an option that does not
// exist. All that exist are generally available: no feature gate is asked.
func CheckPolicyOptionAvailable(option string) error {
	switch option {
	case PreferClosestNUMANodes, MaxAllowableNUMANodes:
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

func (o *PolicyOptions) set(name, text string) error {
	if err := CheckPolicyOptionAvailable(name); err != nil {
		return err
	}
	if name == PreferClosestNUMANodes {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("bad value for option %q: %w", name, err)
		}
		o.PreferClosestNUMA = on
		return nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("unable to convert policy option to integer %q: %w", name, err)
	}
	if limit < defaultMaxAllowableNUMANodes {
		return fmt.Errorf("the minimum value of %q should not be less than %v", name, defaultMaxAllowableNUMANodes)
	}
	o.MaxAllowableNUMANodes = limit
	return nil
}

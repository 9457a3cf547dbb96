// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
)

// Names of the policy options; package placement says what they mean.
const (
	PreferClosestNUMANodes string = placement.OptionPreferClosest
	MaxAllowableNUMANodes  string = placement.OptionMaxNodes
	NUMATieBreak           string = placement.OptionTieBreak
	BestEffortLocality     string = placement.OptionLocality
)

// TieBreak is a value of the option numa-tie-break.
type TieBreak = placement.TieBreak

const (
	TieBreakLowest         = placement.TieBreakLowest
	TieBreakMostAllocated  = placement.TieBreakMostAllocated
	TieBreakLeastAllocated = placement.TieBreakLeastAllocated
)

// PolicyOptions are the options of the policies other than none.
type PolicyOptions = placement.PolicyOptions

func alphaOptions() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TopologyManagerPolicyAlphaOptions)
}

// CheckPolicyOptionAvailable returns an error for an option that does not exist
// or whose feature gate is off.
func CheckPolicyOptionAvailable(option string) error {
	return placement.CheckOption(option, alphaOptions())
}

// NewPolicyOptions reads the options of the KubeletConfiguration.
func NewPolicyOptions(_ klog.Logger, policyOptions map[string]string) (PolicyOptions, error) {
	return placement.ParseOptions(policyOptions, alphaOptions())
}

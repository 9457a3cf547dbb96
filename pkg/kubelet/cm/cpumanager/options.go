// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// Names of the static policy's options.
const (
	FullPCPUsOnlyOption             string = cpuplan.OptionFullPCPUsOnly
	DistributeCPUsAcrossNUMAOption  string = cpuplan.OptionDistributeAcrossNUMA
	AlignBySocketOption             string = cpuplan.OptionAlignBySocket
	DistributeCPUsAcrossCoresOption string = cpuplan.OptionDistributeAcrossCores
	StrictCPUReservationOption      string = cpuplan.OptionStrictReservation
	PreferAlignByUnCoreCacheOption  string = cpuplan.OptionPreferUncoreCache
)

// optionGates says options of which maturity may be used.
func optionGates() (alpha, beta bool) {
	return utilfeature.DefaultFeatureGate.Enabled(features.CPUManagerPolicyAlphaOptions),
		utilfeature.DefaultFeatureGate.Enabled(features.CPUManagerPolicyBetaOptions)
}

// CheckPolicyOptionAvailable fails for an option that does not exist or whose
// maturity gate is off.
func CheckPolicyOptionAvailable(name string) error {
	alpha, beta := optionGates()
	return cpuplan.CheckOption(name, alpha, beta)
}

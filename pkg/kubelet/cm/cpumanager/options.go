// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// Names of the static policy's options.
const (
	FullPCPUsOnlyOption             string = "full-pcpus-only"
	DistributeCPUsAcrossNUMAOption  string = "distribute-cpus-across-numa"
	AlignBySocketOption             string = "align-by-socket"
	DistributeCPUsAcrossCoresOption string = "distribute-cpus-across-cores"
	StrictCPUReservationOption      string = "strict-cpu-reservation"
	PreferAlignByUnCoreCacheOption  string = "prefer-align-cpus-by-uncorecache"
)

// option is what is known about one of them.
type option struct {
	// gate must be on, and maturity names it in messages; both are empty for
	// options that are generally available.
	gate     featuregate.Feature
	maturity string
	set      func(*cpuplan.Options, bool)
}

var options = map[string]option{
	FullPCPUsOnlyOption:            {set: func(o *cpuplan.Options, on bool) { o.FullPCPUsOnly = on }},
	StrictCPUReservationOption:     {set: func(o *cpuplan.Options, on bool) { o.StrictCPUReservation = on }},
	PreferAlignByUnCoreCacheOption: {set: func(o *cpuplan.Options, on bool) { o.PreferUncoreCache = on }},
	DistributeCPUsAcrossNUMAOption: {
		gate: features.CPUManagerPolicyBetaOptions, maturity: "Beta",
		set: func(o *cpuplan.Options, on bool) { o.DistributeAcrossNUMA = on },
	},
	AlignBySocketOption: {
		gate: features.CPUManagerPolicyAlphaOptions, maturity: "Alpha",
		set: func(o *cpuplan.Options, on bool) { o.AlignBySocket = on },
	},
	DistributeCPUsAcrossCoresOption: {
		gate: features.CPUManagerPolicyAlphaOptions, maturity: "Alpha",
		set: func(o *cpuplan.Options, on bool) { o.DistributeAcrossCores = on },
	},
}

// exclusive are the pairs of options that contradict each other, or of which
// nobody has said yet what they mean together.
var exclusive = [][2]string{
	{FullPCPUsOnlyOption, DistributeCPUsAcrossCoresOption},
	{DistributeCPUsAcrossNUMAOption, DistributeCPUsAcrossCoresOption},
	{PreferAlignByUnCoreCacheOption, DistributeCPUsAcrossCoresOption},
	{PreferAlignByUnCoreCacheOption, DistributeCPUsAcrossNUMAOption},
}

// CheckPolicyOptionAvailable fails for an option that does not exist or whose
// maturity gate is off.
func CheckPolicyOptionAvailable(name string) error {
	o, known := options[name]
	if !known {
		return fmt.Errorf("unknown CPU Manager Policy option: %q", name)
	}
	if o.gate != "" && !utilfeature.DefaultFeatureGate.Enabled(o.gate) {
		return fmt.Errorf("CPU Manager Policy %s-level Options not enabled, but option %q provided", o.maturity, name)
	}
	return nil
}

// parseOptions reads the options of the KubeletConfiguration.
func parseOptions(values map[string]string) (cpuplan.Options, error) {
	var parsed cpuplan.Options
	isOn := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := CheckPolicyOptionAvailable(name); err != nil {
			return parsed, err
		}
		on, err := strconv.ParseBool(values[name])
		if err != nil {
			return parsed, fmt.Errorf("bad value for option %q: %w", name, err)
		}
		options[name].set(&parsed, on)
		isOn[name] = on
	}
	for _, pair := range exclusive {
		if isOn[pair[0]] && isOn[pair[1]] {
			return parsed, fmt.Errorf("static policy options %s and %s can not be used at the same time", pair[0], pair[1])
		}
	}
	return parsed, nil
}

// checkOptions fails for options that contradict the topology manager's policy.
func checkOptions(parsed cpuplan.Options, store topologymanager.Store) error {
	if parsed.AlignBySocket && store.GetPolicy().Name() == topologymanager.PolicySingleNumaNode {
		// The word "Topolgy" is the kubelet's.
		return fmt.Errorf("Topolgy manager %s policy is incompatible with CPUManager %s policy option", topologymanager.PolicySingleNumaNode, AlignBySocketOption)
	}
	return nil
}

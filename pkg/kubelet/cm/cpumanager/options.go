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
	// set is nil for an option that is not supported yet.
	set func(*cpuplan.Options, bool)
}

var options = map[string]option{
	FullPCPUsOnlyOption:             {set: func(o *cpuplan.Options, on bool) { o.FullPCPUsOnly = on }},
	StrictCPUReservationOption:      {set: func(o *cpuplan.Options, on bool) { o.StrictCPUReservation = on }},
	PreferAlignByUnCoreCacheOption:  {},
	DistributeCPUsAcrossNUMAOption:  {gate: features.CPUManagerPolicyBetaOptions, maturity: "Beta"},
	AlignBySocketOption:             {gate: features.CPUManagerPolicyAlphaOptions, maturity: "Alpha"},
	DistributeCPUsAcrossCoresOption: {gate: features.CPUManagerPolicyAlphaOptions, maturity: "Alpha"},
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

// parseOptions reads the options of the KubeletConfiguration. An option that is
// not supported yet may only be set to false.
func parseOptions(values map[string]string) (cpuplan.Options, error) {
	var parsed cpuplan.Options
	for _, name := range slices.Sorted(maps.Keys(values)) {
		on, err := strconv.ParseBool(values[name])
		o, known := options[name]
		// Before the gate is looked at: turning that on would not help.
		if known && o.set == nil && err == nil && on {
			return parsed, fmt.Errorf("CPU Manager Policy option %q is not supported yet", name)
		}
		if err := CheckPolicyOptionAvailable(name); err != nil {
			return parsed, err
		}
		if err != nil {
			return parsed, fmt.Errorf("bad value for option %q: %w", name, err)
		}
		if o.set != nil {
			o.set(&parsed, on)
		}
	}
	return parsed, nil
}

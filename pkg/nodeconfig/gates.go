// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Names of the feature gates that decide what the managers do.
const (
	PodLevelResources        = "PodLevelResources"
	PodLevelResourceManagers = "PodLevelResourceManagers"
	CPUOptionsAlpha          = "CPUManagerPolicyAlphaOptions"
	CPUOptionsBeta           = "CPUManagerPolicyBetaOptions"
	TopologyOptionsAlpha     = "TopologyManagerPolicyAlphaOptions"
	CFSQuotaPeriod           = "CustomCPUCFSQuotaPeriod"
	PodLevelResize           = "InPlacePodLevelResourcesVerticalScaling"
	ResizeExclusiveCPUs      = "InPlacePodVerticalScalingExclusiveCPUs"
	ResizeExclusiveMemory    = "InPlacePodVerticalScalingExclusiveMemory"
)

// The two gates that stand for all of a maturity that are not named themselves.
const (
	allAlpha = "AllAlpha"
	allBeta  = "AllBeta"
)

// gate is what a kubelet of the release that podslice is for knows of a feature
// gate.
type gate struct {
	maturity string // pre-alpha, alpha, beta, ga or deprecated
	initial  bool
	locked   bool // cannot be anything else
	needs    []string
}

// gateTable has a line for each gate of the kubelet; a test compares them.
//
//go:embed gates.txt
var gateTable string

// knownGates reads the table.
var knownGates = sync.OnceValue(func() map[string]gate {
	known := map[string]gate{}
	for line := range strings.Lines(gateTable) {
		f := strings.Fields(line)
		g := gate{maturity: f[1], initial: f[2] == "true"}
		for i, word := range f[3:] {
			switch word {
			case "locked":
				g.locked = true
			case "needs":
				g.needs = strings.Split(f[3+i+1], ",")
			}
		}
		known[f[0]] = g
	}
	return known
})

// Gates says of every gate of the kubelet whether it is on.
type Gates map[string]bool

// On reports whether a gate is on.
func (g Gates) On(name string) bool { return g[name] }

// newGates is what the gates come to when some are set, and what is wrong with
// that.
func newGates(set map[string]bool) (Gates, []Finding) {
	known := knownGates()
	var found []Finding
	refuse := func(name, fix, format string, args ...any) {
		found = append(found, Finding{Error, "featureGates." + name, fmt.Sprintf(format, args...), fix})
	}
	gates := Gates{}
	for name, g := range known {
		gates[name] = g.initial
		if all, ok := map[string]string{"alpha": allAlpha, "beta": allBeta}[g.maturity]; ok && name != all {
			if on, ok := set[all]; ok {
				gates[name] = on
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		g, ok := known[name]
		switch on := set[name]; {
		case !ok:
			fix := "remove it"
			if near := nearest(name, maps.Keys(known)); near != "" {
				fix = fmt.Sprintf("%s: %t", near, on)
			}
			refuse(name, fix, "the kubelet knows no feature gate of this name")
		case g.locked && on != g.initial:
			refuse(name, fmt.Sprint(g.initial), "it is %t, but the gate is locked to %t", on, g.initial)
		case g.maturity == "pre-alpha":
			refuse(name, "remove it", "the gate belongs to a later release")
		default:
			gates[name] = on
		}
	}
	if len(found) > 0 {
		return gates, found
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		for _, need := range known[name].needs {
			if gates[name] && !gates[need] {
				refuse(name, fmt.Sprintf("%s: true, or %s: false", need, name), "%s is on, but needs %s, which is off", name, need)
			}
		}
	}
	return gates, found
}

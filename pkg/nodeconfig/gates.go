// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/nearest"
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
func newGates(set map[string]bool) (Gates, Findings) {
	known := knownGates()
	var found Findings
	refuse := func(name, fix, format string, args ...any) {
		found.refuse("featureGates."+name, fix, format, args...)
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
			refuse(name, orRemove(nearest.Name(name, maps.Keys(known))), "the kubelet knows no feature gate of this name")
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
	// What was switched off is told once, with all that needs it: most of that is on
	// by default, and in no configuration.
	needers := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		for _, need := range known[name].needs {
			if !gates[name] || gates[need] {
				continue
			}
			if _, given := set[need]; given {
				needers[need] = append(needers[need], name)
				continue
			}
			refuse(name, fmt.Sprintf("%s: true, or %s: false", need, name), "%s is on, but needs %s, which is off", name, need)
		}
	}
	for _, need := range slices.Sorted(maps.Keys(needers)) {
		names := needers[need]
		off := strings.Join(names, ": false, ") + ": false"
		refuse(need, fmt.Sprintf("true, or with it %s", off), "it is false, but %s", needing(names, set))
	}
	return gates, found
}

// needing says that gates which are on need another.
func needing(names []string, set map[string]bool) string {
	var given, byDefault []string
	for _, name := range names {
		if set[name] {
			given = append(given, name)
		} else {
			byDefault = append(byDefault, name)
		}
	}
	verb := "needs it"
	if len(names) > 1 {
		verb = "need it"
	}
	var texts []string
	if len(given) > 0 {
		texts = append(texts, and(given))
	}
	if len(byDefault) > 0 {
		texts = append(texts, "by default "+and(byDefault))
	}
	return strings.Join(texts, ", and ") + " " + verb
}

// adviseGates finds gates that do not do what they seem to.
func (c *Config) adviseGates() (found Findings) {
	k := &c.Kubelet
	set := k.FeatureGates
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if g := knownGates()[name]; g.locked && g.initial == set[name] {
			found.note("featureGates."+name, "it is always %t, and the gate will be removed", g.initial)
		}
	}
	for _, name := range []string{ResizeExclusiveCPUs, ResizeExclusiveMemory} {
		if c.Gates.On(name) {
			found.warn(c.gateField(name), name+": false", "%s is on, but podslice does not resize what is exclusive: such a resize stays infeasible", name)
		}
	}
	if !c.Gates.On(PodLevelResourceManagers) {
		return found
	}
	field := c.gateField(PodLevelResourceManagers)
	noCPUs, noMemory := k.CPUManagerPolicy == cpuplan.PolicyNone, k.MemoryManagerPolicy == memplan.PolicyNone
	switch {
	case noCPUs && noMemory:
		found.warn(field, "cpuManagerPolicy: static, memoryManagerPolicy: Static", "%s is on, but cpuManagerPolicy is none and memoryManagerPolicy is None: no pod gets anything of its own", PodLevelResourceManagers)
	case noCPUs:
		found.warn(field, "cpuManagerPolicy: static", "%s is on, but cpuManagerPolicy is none: pods with a budget get memory of their own and no CPUs", PodLevelResourceManagers)
	case noMemory:
		found.note(field, "%s is on, but memoryManagerPolicy is None: pods with a budget get CPUs of their own and no memory", PodLevelResourceManagers)
	}
	if !*k.CgroupsPerQOS {
		found.warn("cgroupsPerQOS", "true", "%s is on, but pods have no cgroups of their own, so nothing keeps a pod within its budget", PodLevelResourceManagers)
	}
	if !*k.CPUCFSQuota {
		found.note("cpuCFSQuota", "it is false: nothing keeps the containers of a pod that share CPUs within its budget")
	}
	return found
}

// gateField is the field that has turned a gate on.
func (c *Config) gateField(name string) string {
	set := c.Kubelet.FeatureGates
	if _, ok := set[name]; !ok {
		for maturity, all := range map[string]string{"alpha": allAlpha, "beta": allBeta} {
			if _, ok := set[all]; ok && knownGates()[name].maturity == maturity {
				name = all
			}
		}
	}
	return "featureGates." + name
}

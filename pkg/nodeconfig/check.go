// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nearest"
)

// Validate lists everything about the managers that would keep a kubelet with
// this configuration from starting on the machine, errors, or that it would not
// do as it was meant, warnings. What has nothing to do with the managers is not
// looked at. The worst comes first.
func (c *Config) Validate(m machine.Machine) []Finding {
	n, found := c.on(m)
	found = append(found, c.Overlooked...)
	found = append(found, c.adviseGates()...)
	found = append(found, c.adviseTopology(n)...)
	found = append(found, c.adviseCPUs(n)...)
	found = append(found, c.adviseMemory(n)...)
	order := map[Severity]int{Error: 0, Warning: 1, Note: 2}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(order[a.Severity], order[b.Severity]) })
	return found
}

// checkKubelet is what the kubelet checks before it looks at the machine, as far
// as it has to do with the managers.
func (c *Config) checkKubelet() (found Findings) {
	k := &c.Kubelet
	switch period := k.CPUCFSQuotaPeriod.Duration; {
	case !c.Gates.On(CFSQuotaPeriod) && period != defaultCFSQuotaPeriod:
		found.refuse("cpuCFSQuotaPeriod", fmt.Sprintf("%s, or featureGates.%s: true", defaultCFSQuotaPeriod, CFSQuotaPeriod), "it is %s, but the feature gate %s is off", period, CFSQuotaPeriod)
	case c.Gates.On(CFSQuotaPeriod) && (period < time.Millisecond || period > time.Second):
		found.refuse("cpuCFSQuotaPeriod", "", "it is %s, but must be between 1ms and 1s", period)
	}
	for _, count := range []struct {
		field string
		value int32
	}{{"maxPods", k.MaxPods}, {"podsPerCore", k.PodsPerCore}} {
		if count.value < 0 {
			found.refuse(count.field, "", "it is %d, but must not be negative", count.value)
		}
	}
	for _, choice := range []struct {
		field, value string
		from         []string
	}{{"topologyManagerPolicy", k.TopologyManagerPolicy, topologyPolicies}, {"topologyManagerScope", k.TopologyManagerScope, topologyScopes}} {
		if !slices.Contains(choice.from, choice.value) {
			found.refuse(choice.field, nearest.Name(choice.value, slices.Values(choice.from)), "it is %q, but must be one of %q", choice.value, choice.from)
		}
	}
	if k.ReservedSystemCPUs != "" {
		if _, err := parseCPUs(k.ReservedSystemCPUs); err != nil {
			found.refuse("reservedSystemCPUs", listFix(k.ReservedSystemCPUs), "%q is no list of CPUs such as %q%s", k.ReservedSystemCPUs, "0-3,8", inWords(err))
		}
		for _, cgroup := range []struct{ field, value string }{{"systemReservedCgroup", k.SystemReservedCgroup}, {"kubeReservedCgroup", k.KubeReservedCgroup}} {
			if cgroup.value != "" {
				found.refuse(cgroup.field, "remove it, and what enforceNodeAllocatable has for it; or remove reservedSystemCPUs", "it is %q, but cannot be used together with reservedSystemCPUs, which is %q", cgroup.value, k.ReservedSystemCPUs)
			}
		}
	}
	found = append(found, c.checkEnforcement()...)
	found = append(found, c.checkReservedMemory()...)
	return found
}

// checkEnforcement checks what is enforced of the reservations.
func (c *Config) checkEnforcement() (found Findings) {
	k := &c.Kubelet
	const none = "none"
	cgroups := map[string]struct{ field, value, other string }{
		"system-reserved":              {"systemReservedCgroup", k.SystemReservedCgroup, "system-reserved-compressible"},
		"system-reserved-compressible": {"systemReservedCgroup", k.SystemReservedCgroup, ""},
		"kube-reserved":                {"kubeReservedCgroup", k.KubeReservedCgroup, "kube-reserved-compressible"},
		"kube-reserved-compressible":   {"kubeReservedCgroup", k.KubeReservedCgroup, ""},
	}
	known := append(slices.Sorted(maps.Keys(cgroups)), "pods", none)
	var enforced []string
	for i, name := range k.EnforceNodeAllocatable {
		field := fmt.Sprintf("enforceNodeAllocatable[%d]", i)
		cgroup := cgroups[name]
		switch {
		case slices.Contains(k.EnforceNodeAllocatable[:i], name):
			found.refuse(field, "remove it", "%q is there already", name)
			continue
		case !slices.Contains(known, name):
			found.refuse(field, orRemove(nearest.Name(name, slices.Values(known))), "it is %q, but must be one of %q", name, known)
			continue
		case name == none:
			if len(k.EnforceNodeAllocatable) > 1 {
				found.refuse(field, "remove it or the others", "it is %q, but there are others: %q", name, k.EnforceNodeAllocatable)
			}
			continue
		}
		if cgroup.field != "" && cgroup.value == "" {
			found.refuse(cgroup.field, "", "it is not set, but enforceNodeAllocatable has %q", name)
		}
		if cgroup.other != "" && slices.Contains(k.EnforceNodeAllocatable, cgroup.other) {
			found.refuse(field, "one of them", "%q and %q exclude each other", name, cgroup.other)
		}
		enforced = append(enforced, name)
	}
	if !*k.CgroupsPerQOS && len(enforced) > 0 {
		found.refuse("cgroupsPerQOS", "true, or enforceNodeAllocatable: [none]", "it is false, but enforceNodeAllocatable has %s", and(enforced))
	}
	return found
}

// checkReservedMemory is what the kubelet checks of it under any policy.
func (c *Config) checkReservedMemory() (found Findings) {
	type place struct {
		node int32
		name v1.ResourceName
	}
	first := map[place]int{}
	for i, r := range c.Kubelet.ReservedMemory {
		for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
			field := limitField(i, name)
			if !memplan.IsMemory(name) {
				found.refuse(field, "remove it", "it is no memory: only memory and %s<size> can be reserved here", v1.ResourceHugePagesPrefix)
			}
			quantity := r.Limits[name]
			if quantity.IsZero() {
				found.refuse(field, "remove it", "it is 0, but must be more")
			}
			at := place{r.NumaNode, name}
			if other, twice := first[at]; twice {
				found.refuse(field, "one entry with the sum", "NUMA node %d has %s in reservedMemory[%d] already", r.NumaNode, name, other)
			} else {
				first[at] = i
			}
		}
	}
	return found
}

func limitField(i int, name v1.ResourceName) string {
	return fmt.Sprintf("reservedMemory[%d].limits.%s", i, name)
}

// orRemove is a fix by a name that is near, if there is one.
func orRemove(near string) string { return cmp.Or(near, "remove it") }

// and lists things: "a, b and c".
func and(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
)

func (c *Config) topologyPolicyKnown() bool {
	return slices.Contains(policies, c.Kubelet.TopologyManagerPolicy)
}

func (c *Config) topologyScopeKnown() bool {
	return slices.Contains(scopes, c.Kubelet.TopologyManagerScope)
}

var (
	policies = []string{string(placement.None), string(placement.BestEffort), string(placement.Restricted), string(placement.SingleNUMANode)}
	scopes   = []string{string(placement.ScopeContainer), string(placement.ScopePod)}
)

// checkKubelet is what the kubelet checks before it looks at the machine, as far
// as it has to do with the managers.
func (c *Config) checkKubelet() (found []Finding) {
	refuse := func(field, fix, format string, args ...any) {
		found = append(found, Finding{Error, field, fmt.Sprintf(format, args...), fix})
	}
	k := &c.Kubelet
	switch period := k.CPUCFSQuotaPeriod.Duration; {
	case !c.Gates.On(CFSQuotaPeriod) && period != defaultCFSQuotaPeriod:
		refuse("cpuCFSQuotaPeriod", fmt.Sprintf("%s, or featureGates.%s: true", defaultCFSQuotaPeriod, CFSQuotaPeriod), "it is %s, but the feature gate %s is off", period, CFSQuotaPeriod)
	case c.Gates.On(CFSQuotaPeriod) && (period < time.Millisecond || period > time.Second):
		refuse("cpuCFSQuotaPeriod", "", "it is %s, but must be between 1ms and 1s", period)
	}
	if k.MaxPods < 0 {
		refuse("maxPods", "", "it is %d, but must not be negative", k.MaxPods)
	}
	if k.PodsPerCore < 0 {
		refuse("podsPerCore", "", "it is %d, but must not be negative", k.PodsPerCore)
	}
	if !c.topologyPolicyKnown() {
		refuse("topologyManagerPolicy", nearest(k.TopologyManagerPolicy, slices.Values(policies)), "it is %q, but must be one of %q", k.TopologyManagerPolicy, policies)
	}
	if !c.topologyScopeKnown() {
		refuse("topologyManagerScope", nearest(k.TopologyManagerScope, slices.Values(scopes)), "it is %q, but must be one of %q", k.TopologyManagerScope, scopes)
	}
	if k.ReservedSystemCPUs != "" {
		if _, err := parseCPUs(k.ReservedSystemCPUs); err != nil {
			refuse("reservedSystemCPUs", "", "%q is no list of CPUs: %v", k.ReservedSystemCPUs, err)
		}
		for _, cgroup := range []struct{ field, value string }{{"systemReservedCgroup", k.SystemReservedCgroup}, {"kubeReservedCgroup", k.KubeReservedCgroup}} {
			if cgroup.value != "" {
				refuse(cgroup.field, "remove it or reservedSystemCPUs", "it is %q, but cannot be used together with reservedSystemCPUs, which is %q", cgroup.value, k.ReservedSystemCPUs)
			}
		}
	}
	found = append(found, c.checkReservedMemory()...)
	return found
}

// checkReservedMemory is what the kubelet checks of it under any policy.
func (c *Config) checkReservedMemory() (found []Finding) {
	type place struct {
		node int32
		name v1.ResourceName
	}
	first := map[place]int{}
	for i, r := range c.Kubelet.ReservedMemory {
		for _, name := range sortedNames(r.Limits) {
			refuse := func(fix, format string, args ...any) {
				found = append(found, Finding{Error, fmt.Sprintf("reservedMemory[%d].limits.%s", i, name), fmt.Sprintf(format, args...), fix})
			}
			if !memplan.IsMemory(name) {
				refuse("remove it", "it is no memory: only memory and %s<size> can be reserved here", v1.ResourceHugePagesPrefix)
			}
			quantity := r.Limits[name]
			if quantity.IsZero() {
				refuse("remove it", "it is 0, but must be more")
			}
			at := place{r.NumaNode, name}
			if other, twice := first[at]; twice {
				refuse("one entry with the sum", "NUMA node %d has %s in reservedMemory[%d] already", r.NumaNode, name, other)
			} else {
				first[at] = i
			}
		}
	}
	return found
}

func sortedNames(list v1.ResourceList) []v1.ResourceName {
	var names []v1.ResourceName
	for name := range list {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b v1.ResourceName) int { return strings.Compare(string(a), string(b)) })
	return names
}

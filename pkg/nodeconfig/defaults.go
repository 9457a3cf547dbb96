// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"cmp"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
)

const (
	defaultReconcilePeriod = 10 * time.Second
	defaultCFSQuotaPeriod  = 100 * time.Millisecond
	defaultMaxPods         = 110
)

// defaultEvictionHard is what a kubelet on Linux evicts for when its
// configuration file says nothing of that.
var defaultEvictionHard = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
	"imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

// setDefaults fills in what the kubelet takes where the configuration says
// nothing.
func (c *Config) setDefaults() {
	k := &c.Kubelet
	k.CPUManagerPolicy = cmp.Or(k.CPUManagerPolicy, cpuplan.PolicyNone)
	k.CPUManagerReconcilePeriod = cmp.Or(k.CPUManagerReconcilePeriod, metav1.Duration{Duration: defaultReconcilePeriod})
	k.MemoryManagerPolicy = cmp.Or(k.MemoryManagerPolicy, memplan.PolicyNone)
	k.TopologyManagerPolicy = cmp.Or(k.TopologyManagerPolicy, string(placement.None))
	k.TopologyManagerScope = cmp.Or(k.TopologyManagerScope, string(placement.ScopeContainer))
	k.MaxPods = cmp.Or(k.MaxPods, defaultMaxPods)
	k.CgroupsPerQOS = cmp.Or(k.CgroupsPerQOS, ptr.To(true))
	k.CPUCFSQuota = cmp.Or(k.CPUCFSQuota, ptr.To(true))
	k.CPUCFSQuotaPeriod = cmp.Or(k.CPUCFSQuotaPeriod, &metav1.Duration{Duration: defaultCFSQuotaPeriod})
	k.MergeDefaultEvictionSettings = cmp.Or(k.MergeDefaultEvictionSettings, ptr.To(false))
	if k.EnforceNodeAllocatable == nil {
		k.EnforceNodeAllocatable = []string{"pods"}
	}
	switch {
	case k.EvictionHard == nil:
		k.EvictionHard = defaultEvictionHard
	case *k.MergeDefaultEvictionSettings:
		k.EvictionHard = maps.Clone(k.EvictionHard)
		for signal, threshold := range defaultEvictionHard {
			if _, ok := k.EvictionHard[signal]; !ok {
				k.EvictionHard[signal] = threshold
			}
		}
	}
}

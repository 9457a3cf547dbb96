// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Quota is a CFS quota: so many microseconds of CPU time in each period. The quota
// of 0 is none.
type Quota struct {
	Micros, Period int64
}

const (
	usualPeriod = 100 * time.Millisecond
	leastMicros = 1000
)

// quotaOf is what the kubelet makes of a limit in thousandths of a CPU.
func (n Node) quotaOf(milli int64) Quota {
	period := n.period().Microseconds()
	if milli <= 0 || !n.CFSQuota {
		return Quota{Period: period}
	}
	return Quota{Micros: max(milli*period/1000, leastMicros), Period: period}
}

func (n Node) period() time.Duration {
	if n.QuotaPeriod <= 0 {
		return usualPeriod
	}
	return n.QuotaPeriod
}

// quotas are the quotas by the rules of podplan, where these apply.
func (n Node) quotas(pod *v1.Pod, isolation map[string]podplan.Isolation) (podplan.Quotas, bool) {
	asked, err := n.asksCPUs(pod)
	if err != nil || !n.PodLevelResources || n.CPUs == nil {
		return podplan.Quotas{}, false
	}
	record := n.cpus.Record(string(pod.UID))
	return asked.Quotas(func(c podplan.Container) podplan.Holding {
		cpus, ok := record.Containers[c.Name]
		if !ok {
			return podplan.Holding{}
		}
		return podplan.Holding{CPUs: cpus.Size(), Exclusive: isolation[c.Name] == podplan.IsolatedContainer}
	}, podplan.LeastQuota(n.period()))
}

// podQuota is that of the pod's cgroup. Quotas and known are what quotas says.
func (n Node) podQuota(pod *v1.Pod, isolation map[string]podplan.Isolation, q podplan.Quotas, known bool) Quota {
	lifted := q.Lifted
	if !known {
		lifted = n.liftedByKubelet(pod, isolation)
	}
	if lifted {
		return n.quotaOf(0)
	}
	budget := n.PodLevelResources && resourcehelper.IsPodLevelResourcesSet(pod)
	switch QOSClass(pod, n.PodLevelResources) {
	case v1.PodQOSBestEffort:
		return n.quotaOf(0)
	case v1.PodQOSBurstable:
		limited := true
		for c := range Containers(pod) {
			limited = limited && !c.Resources.Limits.Cpu().IsZero()
		}
		if !limited && (!budget || pod.Spec.Resources.Limits.Cpu().IsZero()) {
			return n.quotaOf(0)
		}
	}
	limits := resourcehelper.PodLimits(pod.DeepCopy(), resourcehelper.PodResourcesOptions{SkipPodLevelResources: !n.PodLevelResources})
	return n.quotaOf(limits.Cpu().MilliValue())
}

// liftedByKubelet is the kubelet's own rule: a pod with a budget has no quota if all
// of its containers have CPUs of their own, any other pod if one has.
func (n Node) liftedByKubelet(pod *v1.Pod, isolation map[string]podplan.Isolation) bool {
	all, any := true, false
	for c := range Containers(pod) {
		own := isolation[c.Name] == podplan.IsolatedContainer
		all, any = all && own, any || own
	}
	if n.PodLevelManagers && resourcehelper.IsPodLevelResourcesSet(pod) {
		return all
	}
	return any
}

// containerQuota is that of a container's cgroup: none for one with CPUs of its own,
// else its limit or, if it has none, the pod's, and no more than podplan allows.
func (n Node) containerQuota(pod *v1.Pod, c *v1.Container, own bool, q podplan.Quotas, known bool) Quota {
	if own {
		return n.quotaOf(0)
	}
	limit := c.Resources.Limits.Cpu().MilliValue()
	if limit == 0 && n.PodLevelResources && resourcehelper.IsPodLevelResourcesSet(pod) {
		limit = pod.Spec.Resources.Limits.Cpu().MilliValue()
	}
	if known {
		limit = q.Lower(c.Name, limit, 0)
	}
	return n.quotaOf(limit)
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// QuotaAdvisor says which CFS quotas a pod with a budget gets. The kubelet asks
// for it in the few lines that are edited in its tree (docs/cfs-quota.md); without
// it, its own rules hold.
type QuotaAdvisor interface {
	// PodQuotaLifted says whether the pod's own cgroup is to have no quota. It is
	// not known for pods to which the kubelet's own rule applies.
	PodQuotaLifted(logger klog.Logger, pod *v1.Pod, period time.Duration) (lifted, known bool)
	// LowerCPULimit returns what the container's quota is made from, where limit
	// is what the kubelet would make it from. It raises none, and leaves that of
	// a container without a quota alone. The period is that of the quotas; 0 is
	// the usual one.
	LowerCPULimit(pod *v1.Pod, container *v1.Container, limit *resource.Quantity, period time.Duration) *resource.Quantity
}

var _ QuotaAdvisor = (*manager)(nil)

// PodQuotaLifted implements QuotaAdvisor. It is asked once or twice in a pod's
// life, so what its owner should know is logged here.
func (m *manager) PodQuotaLifted(logger klog.Logger, pod *v1.Pod, period time.Duration) (lifted, known bool) {
	q, known := m.quotas(pod, period)
	if known && !q.Lifted && !q.Harmless {
		logger.Info("The pod keeps its CFS quota, by which its exclusive containers can be throttled: they leave too little of the budget to those that share", "pod", klog.KObj(pod), "podUID", pod.UID)
	}
	return q.Lifted, known
}

// LowerCPULimit implements QuotaAdvisor.
func (m *manager) LowerCPULimit(pod *v1.Pod, container *v1.Container, limit *resource.Quantity, period time.Duration) *resource.Quantity {
	q, known := m.quotas(pod, period)
	if !known {
		return limit
	}
	var claimed int64
	if utilfeature.DefaultFeatureGate.Enabled(features.DRANodeAllocatableResources) {
		// What a claim adds to the container's limit it adds to the pod's.
		claims := resourcehelper.GetContainerDRAAllocations(pod, container.Name)
		claimed = claims.Cpu().MilliValue()
	}
	// By name: while a container is resized its resources are not the pod's.
	lower := q.Lower(container.Name, limit.MilliValue(), claimed)
	if lower == limit.MilliValue() {
		return limit
	}
	return resource.NewMilliQuantity(lower, resource.DecimalSI)
}

// quotas goes by what is recorded: a pod keeps its quotas when gates, scope or
// policies are others after a restart.
func (m *manager) quotas(pod *v1.Pod, period time.Duration) (podplan.Quotas, bool) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResources) || !resourcehelper.IsPodLevelResourcesSet(pod) {
		return podplan.Quotas{}, false
	}
	plan, err := readPod(pod)
	if err != nil {
		return podplan.Quotas{}, false // admission has refused it, or will
	}
	content := m.content()
	held := func(c podplan.Container) podplan.Holding {
		cpus, ok := content.GetCPUSet(plan.UID, c.Name)
		if !ok {
			return podplan.Holding{}
		}
		return podplan.Holding{CPUs: cpus.Size(), Exclusive: isolationLevel(content, pod, specOf(pod, c.Name)) == podplan.IsolatedContainer}
	}
	return plan.Quotas(held, leastQuota(period))
}

// leastQuota is the least that the kubelet can bound a container to, in
// thousandths of a CPU: 1 ms in each period.
func leastQuota(period time.Duration) int64 {
	if period <= 0 || !utilfeature.DefaultFeatureGate.Enabled(features.CPUCFSQuotaPeriod) {
		period = 100 * time.Millisecond
	}
	return podplan.LeastQuota(period)
}

// specOf finds an init or application container, which must be there.
func specOf(pod *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return &v1.Container{Name: name}
}

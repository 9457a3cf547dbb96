// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
)

// Quotas are written outside of the three packages, by what the CPU manager
// answers. The two functions below are what the kubelet does with the answers,
// in its tree as it is and with the lines that docs/cfs-quota.md lists. What
// becomes of it in a kernel is measured on the emulated node.

// quotaAdvisor is what those lines ask our CPU manager for.
type quotaAdvisor interface {
	PodQuotaLifted(klog.Logger, *v1.Pod, time.Duration) (lifted, known bool)
	LowerCPULimit(*v1.Pod, *v1.Container, *resource.Quantity, time.Duration) *resource.Quantity
}

const quotaPeriod = 100 * time.Millisecond

// podQuotaLifted is whether the cgroup of a pod with a budget has no quota.
func (n *node) podQuotaLifted(pod *v1.Pod) bool {
	if advisor, ok := n.cpu.(quotaAdvisor); ok {
		if lifted, known := advisor.PodQuotaLifted(n.logger, pod, quotaPeriod); known {
			return lifted
		}
	}
	for _, c := range containersOf(pod) {
		if n.cpu.GetResourceIsolationLevel(pod, c) != cmqos.ResourceIsolationContainer {
			return false
		}
	}
	return true
}

// quotaOf is the CPUs that a container without a limit of its own may use at
// most.
func (n *node) quotaOf(pod *v1.Pod, container string) *resource.Quantity {
	limit := pod.Spec.Resources.Limits.Cpu()
	for _, c := range containersOf(pod) {
		if advisor, ok := n.cpu.(quotaAdvisor); ok && c.Name == container {
			limit = advisor.LowerCPULimit(pod, c, limit, quotaPeriod)
		}
	}
	return limit
}

var quotaFaults = []fault{
	{
		name: "pod-quota-throttles-exclusive-container",
		what: "the cgroup of a pod with an exclusive and a shared container keeps its quota; when that is used up, the exclusive one stops, too",
		ours: "lifts it: the shared containers are bounded by themselves",
		play: func(n *node) {
			n.begin(onCPUs(8))
			pod := n.admit("p cpu=4 memory=4Gi; app a cpu=3 memory=2Gi; app b")
			n.want(n.podQuotaLifted(pod), "the pod's cgroup has a quota of %s CPUs", pod.Spec.Resources.Limits.Cpu())
		},
	},
	{
		name: "pod-quota-throttles-exclusive-container-by-scope",
		what: "the same in scope container, where the shared one runs on all CPUs of the node shared pool",
		ours: "lifts it: the shared containers are bounded by themselves",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(8)(s); s.scope = "container" })
			pod := n.admit("p cpu=4 memory=4Gi; app a cpu=3 memory=2Gi; app b")
			n.want(n.podQuotaLifted(pod), "the pod's cgroup has a quota of %s CPUs", pod.Spec.Resources.Limits.Cpu())
		},
	},
	{
		name: "shared-container-may-use-whole-budget",
		what: "the quota of a shared container without a limit is the pod's whole budget, slices included",
		ours: "what the slices leave",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(8)(s); s.scope = "container" })
			pod := n.admit("p cpu=4 memory=4Gi; app a cpu=3 memory=2Gi; app b")
			n.want(n.quotaOf(pod, "b").Value() == 1, "b may use %s CPUs of a budget of 4, of which a has 3", n.quotaOf(pod, "b"))
		},
	},
	{
		name: "ended-init-container-keeps-pod-quota",
		what: "a standard init container that shares keeps the pod's quota on for the life of the pod, although it has ended",
		ours: "it does not",
		play: func(n *node) {
			n.begin(onCPUs(8))
			pod := n.admit("p cpu=4 memory=4Gi; init i; app a cpu=4 memory=4Gi")
			n.want(n.podQuotaLifted(pod), "the pod's cgroup has a quota of %s CPUs", pod.Spec.Resources.Limits.Cpu())
		},
	},
}

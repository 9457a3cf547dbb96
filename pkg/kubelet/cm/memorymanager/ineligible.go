// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// ineligible is a container that is written as if it were to get memory of its
// own, and gets none.
type ineligible struct {
	logger    klog.Logger
	container podplan.Container
	budget    podplan.Budget
	reason    podplan.Ineligibility
}

// tell logs and counts it. The pod is admitted, so nobody would know otherwise.
func (i ineligible) tell() {
	i.logger.Error(nil, "Container gets no exclusive memory although its requests equal its limits",
		"asked", i.container.Asks(), "budget", i.budget.String(), "reason", i.reason, "because", i.reason.Explain(i.budget))
	topologymanager.CountIneligible(metrics.ResourceManagerMemory, i.reason)
}

// tellIneligible tells once the pod is admitted which of its containers should
// have been written otherwise; with a name, of that one. A pod that ran before the
// kubelet started was told of then. The caller holds the lock.
func (m *manager) tellIneligible(logger klog.Logger, pod *v1.Pod, name string) {
	uid := string(pod.UID)
	if m.runningBefore[uid] {
		return
	}
	// specOf reads Guaranteed pods only; one that cannot be read here has nothing
	// that could be told of it.
	read, err := podplan.FromSpec(pod, podplan.Facts{Guaranteed: v1qos.GetPodQOS(pod) == v1.PodQOSGuaranteed, PodLevel: podLevel()})
	if err != nil {
		return
	}
	record := m.host(uid).Records().Pod(uid)
	for _, c := range read.Containers {
		reason, found := read.IneligibleForMemory(c)
		if _, has := record.Containers[c.Name]; !found || has || name != "" && name != c.Name {
			continue
		}
		i := ineligible{logger: klog.LoggerWithValues(logger, "containerName", c.Name), container: c, budget: *read.Budget, reason: reason}
		if a := m.transaction(uid); a != nil {
			a.ineligible = append(a.ineligible, i)
		} else {
			i.tell()
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// ineligible is a container that is written as if it were to get CPUs of its own,
// and gets none.
type ineligible struct {
	logger    klog.Logger
	container podplan.Container
	budget    podplan.Budget
	reason    podplan.Ineligibility
}

// tell logs and counts it. The pod is admitted, so nobody would know otherwise.
func (i ineligible) tell() {
	i.logger.Error(nil, "Container gets no exclusive CPUs although it asks for a whole number of them",
		"asked", i.container.Asks(), "budget", i.budget.String(), "reason", i.reason, "because", i.reason.Explain(i.budget))
	topologymanager.CountIneligible(cpuplan.ResourceName, i.reason)
}

// tellIneligible tells once the pod is admitted if the container should have been
// written otherwise; whole is set for a pod that is allocated as a whole. A pod
// that ran before the kubelet started was told of then.
func (m *manager) tellIneligible(logger klog.Logger, plan podplan.Pod, container podplan.Container, whole bool) {
	reason, found := plan.IneligibleForCPUs(container, whole)
	if !found {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, holds := m.view().Record(plan.UID).Containers[container.Name]; holds || m.runningBefore[plan.UID] {
		return
	}
	i := ineligible{logger: logger, container: container, budget: *plan.Budget, reason: reason}
	if m.isOpen(plan.UID) {
		m.admission.ineligible = append(m.admission.ineligible, i)
		return
	}
	i.tell()
}

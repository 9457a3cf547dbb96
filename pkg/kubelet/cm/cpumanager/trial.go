// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

var _ topologymanager.AdmissionTrier = (*manager)(nil)

// Trial implements topologymanager.AdmissionTrier.
func (m *manager) Trial(_ klog.Logger, pod *v1.Pod, change numa.Change, affinity func(container string) numa.Hint) (placement.Provider, error) {
	plan, err := readPod(pod)
	if err != nil {
		return nil, numa.ErrImpossible
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isOpen(plan.UID) || !m.admission.before.IsEmpty() {
		return nil, numa.ErrImpossible
	}
	return cpuplan.NewTrial(m.node, m.view(), plan, change, affinity)
}

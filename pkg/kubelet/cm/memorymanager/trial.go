// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

var _ topologymanager.AdmissionTrier = (*manager)(nil)

// Trial implements topologymanager.AdmissionTrier.
func (m *manager) Trial(_ klog.Logger, pod *v1.Pod, change numa.Change, affinity func(container string) numa.Hint) (placement.Provider, error) {
	asked, err := specOf(pod)
	if err != nil {
		return nil, numa.ErrImpossible
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.transaction(asked.UID)
	if a == nil || !a.before.IsEmpty() {
		return nil, numa.ErrImpossible
	}
	return memplan.NewTrial(m.policy.static(), m.host(asked.UID), asked, change, affinity)
}

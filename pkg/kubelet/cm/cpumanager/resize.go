// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

var _ topologymanager.ResizeGuard = (*manager)(nil)

// CheckResize implements topologymanager.ResizeGuard. What is on record of a pod
// stays until the pod ends, so it is kept from resizes even while the feature
// gate is off.
func (m *manager) CheckResize(_ klog.Logger, admitted, resized *v1.Pod) error {
	if m.node == nil {
		return nil
	}
	m.mu.Lock()
	record := m.committed.Record(string(resized.UID))
	m.mu.Unlock()
	before, err := readPodIf(admitted, podLevel() || !record.IsEmpty())
	if err != nil {
		return err
	}
	after, err := readPodIf(resized, podLevel() || !record.IsEmpty())
	if err != nil {
		return err
	}
	held := podplan.Amounts{Budget: uint64(record.Pod.Size()) * 1000, Containers: map[string]uint64{}}
	for name, cpus := range record.Containers {
		held.Containers[name] = uint64(cpus.Size()) * 1000
	}
	whole := m.affinity.Name() == topologymanager.PodTopologyScope
	if changes := podplan.CPUChanges(before, after, held, whole); len(changes) > 0 {
		return &topologymanager.ResizeError{Manager: "CPU", Policy: string(m.policy), Changes: changes}
	}
	return nil
}

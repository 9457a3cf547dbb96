// SPDX-License-Identifier: Apache-2.0

package memorymanager

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
	if !m.policy.static() {
		return nil
	}
	record := m.published().Records().Pod(string(resized.UID))
	before, err := specIf(admitted, podLevel() || !record.IsEmpty())
	if err != nil {
		return err
	}
	after, err := specIf(resized, podLevel() || !record.IsEmpty())
	if err != nil {
		return err
	}
	held := map[string]podplan.Amounts{}
	of := func(resource string) podplan.Amounts {
		if held[resource].Containers == nil {
			held[resource] = podplan.Amounts{Containers: map[string]uint64{}}
		}
		return held[resource]
	}
	for _, b := range record.Pod {
		a := of(b.Resource)
		a.Budget += b.Size
		held[b.Resource] = a
	}
	for name, blocks := range record.Containers {
		for _, b := range blocks {
			of(b.Resource).Containers[name] += b.Size
		}
	}
	if changes := podplan.MemoryChanges(before, after, held); len(changes) > 0 {
		return &topologymanager.ResizeError{Manager: "Memory", Policy: string(m.policy.name), Changes: changes}
	}
	return nil
}

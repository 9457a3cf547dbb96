// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

var _ topologymanager.ResourceReporter = (*manager)(nil)

// ReportResources implements topologymanager.ResourceReporter.
func (m *manager) ReportResources(_ klog.Logger, pod *v1.Pod, container *v1.Container) numa.Report {
	if !m.policy.static() {
		return numa.Report{}
	}
	asked, err := specOf(pod)
	if err != nil {
		return numa.Report{Cause: err.Error()}
	}
	name := ""
	if container != nil {
		name = container.Name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host(asked.UID).Report(asked, name)
}

// ReportUsage implements topologymanager.ResourceReporter.
func (m *manager) ReportUsage(_ klog.Logger, podUID string) []numa.NodeUsage {
	if !m.policy.static() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host(podUID).Usage()
}

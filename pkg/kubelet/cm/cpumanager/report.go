// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

var _ topologymanager.ResourceReporter = (*manager)(nil)

// ReportResources implements topologymanager.ResourceReporter.
func (m *manager) ReportResources(_ klog.Logger, pod *v1.Pod, container *v1.Container) numa.Report {
	if m.node == nil {
		return numa.Report{}
	}
	plan, err := readPod(pod)
	if err != nil {
		return numa.Report{Cause: err.Error()}
	}
	var wanted *podplan.Container
	if container != nil {
		if c, ok := plan.Container(container.Name); ok {
			wanted = &c
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node.Report(m.view(), plan, wanted)
}

// ReportUsage implements topologymanager.ResourceReporter.
func (m *manager) ReportUsage(klog.Logger, string) []numa.NodeUsage {
	if m.node == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node.Usage(m.view())
}

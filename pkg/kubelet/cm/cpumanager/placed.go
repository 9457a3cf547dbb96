// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

var _ topologymanager.CPUNodes = (*manager)(nil)

// ContainerCPUNodes implements topologymanager.CPUNodes. What is staged in an
// open admission counts: the memory manager asks while it places the same pod.
func (m *manager) ContainerCPUNodes(podUID, containerName string) (numa.Set, bool) {
	if m.node == nil {
		return numa.Set{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node.ContainerNodes(m.view(), podUID, containerName)
}

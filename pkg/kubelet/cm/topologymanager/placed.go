// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// CPUNodes is implemented by hint providers that know the CPUs of containers,
// and by the Store of this package, which asks them; it is optional.
// ContainerCPUNodes returns the NUMA nodes of the CPUs that the container has
// for itself or shares with others of its pod, also while its admission is
// open. It answers false for a container that has none, or may run anywhere.
type CPUNodes interface {
	ContainerCPUNodes(podUID, containerName string) (numa.Set, bool)
}

var _ CPUNodes = manager{}

// ContainerCPUNodes implements CPUNodes.
func (s *scope) ContainerCPUNodes(podUID, containerName string) (numa.Set, bool) {
	s.mu.Lock()
	providers := slices.Clone(s.providers)
	s.mu.Unlock()
	for _, p := range providers {
		if knows, ok := p.(CPUNodes); ok {
			if nodes, ok := knows.ContainerCPUNodes(podUID, containerName); ok {
				return nodes, true
			}
		}
	}
	return numa.Set{}, false
}

// ContainerCPUNodes implements CPUNodes.
func (m manager) ContainerCPUNodes(podUID, containerName string) (numa.Set, bool) {
	if knows, ok := m.Scope.(CPUNodes); ok {
		return knows.ContainerCPUNodes(podUID, containerName)
	}
	return numa.Set{}, false
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// placer is a provider that knows the CPUs of one container.
type placer struct {
	plain
	container string
	nodes     numa.Set
}

func (p *placer) ContainerCPUNodes(_, container string) (numa.Set, bool) {
	return p.nodes, container == p.container
}

// TestContainerCPUNodes: the store asks those providers that know, in order.
func TestContainerCPUNodes(t *testing.T) {
	for _, policy := range []string{PolicyNone, PolicyRestricted} {
		m, err := NewManager(silent, nodes(0, 1), policy, PodTopologyScope, nil)
		require.NoError(t, err)
		_, ok := m.(CPUNodes).ContainerCPUNodes("p", "a")
		require.False(t, ok)
		m.AddHintProvider(silent, &plain{})
		m.AddHintProvider(silent, &placer{container: "a", nodes: numa.SetOf(1)})
		m.AddHintProvider(silent, &placer{container: "b", nodes: numa.SetOf(0)})
		for container, want := range map[string]numa.Set{"a": numa.SetOf(1), "b": numa.SetOf(0)} {
			got, ok := m.(CPUNodes).ContainerCPUNodes("p", container)
			require.True(t, ok)
			require.Equal(t, want, got)
		}
		_, ok = m.(CPUNodes).ContainerCPUNodes("p", "c")
		require.False(t, ok)
	}
}

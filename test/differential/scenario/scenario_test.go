// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScenarios checks that a scenario is a function of its seed, survives
// being written as JSON, and is something that could be.
func TestScenarios(t *testing.T) {
	limits := Limits{Nodes: 4, Options: [][]string{nil, {FullPCPUs}}, Crossed: true}
	regular := 0
	for seed := range uint64(2000) {
		s := Generate(seed, limits)
		require.Equal(t, s, Generate(seed, limits))
		data, err := json.Marshal(s)
		require.NoError(t, err)
		var read Scenario
		require.NoError(t, json.Unmarshal(data, &read))
		require.Equal(t, s, &read)

		require.Equal(t, len(s.Machine.CPUs), s.Machine.All().Size(), "an ID is given twice")
		require.LessOrEqual(t, len(s.Machine.CPUNodes()), limits.Nodes)
		reserved := s.Settings.ReservedSet()
		require.True(t, reserved.IsSubsetOf(s.Machine.All()))
		require.Less(t, s.Settings.ReservedCount, max(2, len(s.Machine.CPUs)))
		threads := 0
		for _, node := range s.Machine.Info().Topology {
			for _, core := range node.Cores {
				threads += len(core.Threads)
			}
		}
		require.Equal(t, len(s.Machine.CPUs), threads)
		if s.Machine.Regular() {
			regular++
		}
		require.NotEmpty(t, s.String())
	}
	require.Greater(t, regular, 800)
	require.Less(t, regular, 1800)
}

// TestPods checks the specs against what the generator thinks of them.
func TestPods(t *testing.T) {
	p := &Pod{Name: "p", Budget: &Budget{4000, 256}, Containers: []Container{
		{Name: "i0", Kind: Init}, {Name: "i1", Kind: Sidecar, MilliCPU: 1000, MemoryMiB: 64}, {Name: "a0", Kind: App, MilliCPU: 1500, MemoryMiB: 64, Lower: true},
	}}
	require.Equal(t, "p budget=4 init i0 sidecar i1=1 app a0=1500m(burstable)", p.String())
	spec := p.Spec()
	require.Len(t, spec.Spec.InitContainers, 2)
	require.NotNil(t, spec.Spec.InitContainers[1].RestartPolicy)
	require.Equal(t, "4", spec.Spec.Resources.Limits.Cpu().String())
	require.NotEqual(t, spec.Spec.Containers[0].Resources.Requests, spec.Spec.Containers[0].Resources.Limits)
	require.True(t, p.Guaranteed())
	require.False(t, p.Containers[2].Guaranteed())
}

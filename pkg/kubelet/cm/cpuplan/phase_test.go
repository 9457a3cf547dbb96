// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// TestPodsHoldNoMoreThanTheirLargestPhase is about pods whose containers are
// allocated one by one: CPUs of init containers that have ended are reused before
// any others are taken.
func TestPodsHoldNoMoreThanTheirLargestPhase(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	checked := 0
	for range 5000 {
		topology := randomTopology(r)
		options := randomOptions(r, topology)
		// Cores of unequal size cannot always be handed on without a rest.
		options.FullPCPUsOnly = false
		node, err := NewNode(topology, Set{}, 1, options)
		require.NoError(t, err)
		taken := State{}.With("other", Record{Containers: map[string]Set{"c": randomSubset(r, node.Allocatable())}})
		pod := randomPod(r, "p")
		pod.Budget = nil
		record, err := admit(node, taken, pod, numa.Hint{Any: true}, true)
		if largestPhase(pod) > node.Free(taken).Size() {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, "%+v: %d free", pod, node.Free(taken).Size())
		checked++
		require.Equal(t, largestPhase(pod), record.CPUs().Size(), "%+v: %s", pod, record)
	}
	require.Greater(t, checked, 500)
}

// largestPhase counts, for each moment of the pod's life, what runs then.
func largestPhase(pod podplan.Pod) int {
	most, running := 0, 0
	for _, c := range pod.Containers {
		count := pod.ExclusiveCPUs(c)
		if c.Kind == podplan.StandardInit {
			most = max(most, running+count)
			continue
		}
		running += count
	}
	return max(most, running)
}

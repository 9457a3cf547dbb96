// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// TestPerContainerAddsUp: whatever a pod has as a whole, its containers have
// together, each on the pod's nodes.
func TestPerContainerAddsUp(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		on := numa.SetOf(0, 1)
		asked := podplan.Pod{UID: "p", Managed: true}
		pod := PodRecord{Containers: map[string][]Block{}}
		for _, resource := range []string{Ordinary, "hugepages-2Mi"}[:1+r.IntN(2)] {
			pod.Pod = append(pod.Pod, Block{on, resource, uint64(1 + r.IntN(20))})
		}
		for i := range 1 + r.IntN(4) {
			name := fmt.Sprint("c", i)
			asked.Containers = append(asked.Containers, podplan.Container{Name: name, Kind: podplan.Kind(r.IntN(3))})
			pod.Containers[name] = nil
			for _, b := range pod.Pod {
				if i == 0 || r.IntN(3) > 0 {
					pod.Containers[name] = append(pod.Containers[name], Block{numa.SetOf(r.IntN(2)), b.Resource, uint64(r.IntN(20))})
				}
			}
		}
		records := NewRecords(map[string]PodRecord{"p": pod})
		if r.IntN(2) == 0 {
			records = records.Know(asked)
		}
		split := records.PerContainer().Pod("p")
		require.False(t, split.Whole())
		sums := map[string]uint64{}
		for b := range split.Charges() {
			require.Equal(t, on, b.Nodes)
			sums[b.Resource] += b.Size
		}
		for _, b := range pod.Pod {
			require.Equal(t, b.Size, sums[b.Resource], "seed %d: %v became %v", seed, pod, split)
		}
		require.Len(t, split.Containers, len(pod.Containers))
	}
}

// TestRepaired: containers outside of their pod's nodes count; those on a part of
// them are where they should be.
func TestRepaired(t *testing.T) {
	on := func(pod, a, b numa.Set) PodRecord {
		return PodRecord{
			Pod:        []Block{{pod, Ordinary, 3}, {pod, "hugepages-2Mi", 1}},
			Containers: map[string][]Block{"a": {{a, Ordinary, 2}, {a, "hugepages-2Mi", 1}}, "b": {{b, Ordinary, 1}}},
		}
	}
	zero, one, both := numa.SetOf(0), numa.SetOf(1), numa.SetOf(0, 1)
	for _, test := range []struct{ left, want PodRecord }{
		{on(both, zero, one), on(both, zero, one)},
		{on(one, zero, zero), on(zero, zero, zero)},
		{PodRecord{Pod: []Block{{one, Ordinary, 3}}}, PodRecord{Pod: []Block{{one, Ordinary, 3}}}},
	} {
		require.Equal(t, test.want, test.left.Repaired())
	}
	// What lies on other nodes is looked at one resource after the other.
	mixed := on(one, zero, one).Repaired()
	require.Equal(t, []Block{{both, Ordinary, 3}, {zero, "hugepages-2Mi", 1}}, mixed.Pod)
}

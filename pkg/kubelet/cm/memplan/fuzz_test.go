// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// FuzzAmounts plans with amounts of any size on nodes of any size: nothing
// wraps, so what is admitted is not more than there is.
func FuzzAmounts(f *testing.F) {
	const most = math.MaxUint64
	f.Add(uint64(100), uint64(50), uint64(20), uint64(30), uint64(10), byte(3))
	f.Add(uint64(most), uint64(most), uint64(most), uint64(1), uint64(most), byte(3))
	f.Add(uint64(most), uint64(most), uint64(1)<<63, uint64(1)<<63, uint64(math.MaxInt64), byte(1))
	f.Add(uint64(most), uint64(1), uint64(most-1), uint64(2), uint64(most), byte(2))
	f.Fuzz(func(t *testing.T, a, b, first, second, third uint64, set byte) {
		m, err := NewMachine([]NodeSpec{{ID: 0, Memory: a}, {ID: 1, Memory: b}})
		require.NoError(t, err)
		h := NewHost(m, Records{})
		sizes := []uint64{first, second, third}
		for i, size := range sizes {
			pod := podplan.Pod{UID: fmt.Sprint(i), Managed: true, Containers: []podplan.Container{
				{Name: "init", Kind: podplan.StandardInit, Memory: podplan.Memory{Ordinary: sizes[(i+1)%3]}},
				{Name: "c", Kind: podplan.App, Memory: podplan.Memory{Ordinary: size}},
				{Name: "d", Kind: podplan.App, Memory: podplan.Memory{Ordinary: sizes[(i+2)%3]}},
			}}
			if set&4 > 0 {
				pod.Budget = &podplan.Budget{Memory: podplan.Memory{Ordinary: sizes[(i+2)%3]}}
				for j := range pod.Containers {
					pod.Containers[j].Guaranteed = true
				}
				record, err := h.PlanPod(pod, numa.Hint{Any: true}, Near{"c": numa.SetOf(0), "d": numa.SetOf(1)})
				if err == nil {
					h = h.With(pod.UID, record)
				}
			}
			for _, c := range pod.Containers {
				record, err := h.PlanContainer(pod, c.Name, numa.Hint{Nodes: numa.SetFromBits(uint64(set) & 3)})
				if err == nil {
					h = h.With(pod.UID, record)
				}
			}
			h.PodHints(pod)
		}
		// In halves, so that the test's own sums do not wrap.
		var charged, used float64
		for _, pod := range h.Records().All() {
			for b := range pod.Charges() {
				charged += float64(b.Size)
			}
		}
		for n := range h.Nodes() {
			r := n.Resources[0]
			require.Zero(t, r.Missing)
			require.Equal(t, r.Allocatable, r.Used+r.Free)
			require.LessOrEqual(t, r.Used, r.Total)
			used += float64(r.Used)
		}
		require.InEpsilon(t, charged+1, used+1, 1e-9)
		require.LessOrEqual(t, charged, (float64(a)+float64(b))*(1+1e-9))
	})
}

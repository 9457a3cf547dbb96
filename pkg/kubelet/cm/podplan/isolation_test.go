// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestIsolationOf(t *testing.T) {
	require.Equal(t, IsolatedHost, IsolationOf(false, true, true))
	require.Equal(t, IsolatedPod, IsolationOf(true, true, false))
	require.Equal(t, IsolatedContainer, IsolationOf(true, true, true))
	require.Equal(t, IsolatedContainer, IsolationOf(true, false, false))
}

func TestSlices(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		l := v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)}
		if cpu != "" {
			l[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		return l
	}
	for _, test := range []struct {
		requests, limits v1.ResourceList
		cpu, memory      bool
	}{
		{list("2", "1Gi"), list("2", "1Gi"), true, true},
		{list("1500m", "1Gi"), list("1500m", "1Gi"), false, true},
		{list("2", "1Gi"), list("3", "1Gi"), false, false},
		{list("2", "1Gi"), list("2", "2Gi"), false, false},
		{list("", "1Gi"), list("", "1Gi"), false, false},
		{nil, nil, false, false},
	} {
		c := &v1.Container{Resources: v1.ResourceRequirements{Requests: test.requests, Limits: test.limits}}
		require.Equal(t, test.cpu, HasCPUSlice(c), "%v", test)
		require.Equal(t, test.memory, HasMemorySlice(c), "%v", test)
	}
}

// TestNeeds: with a budget it is the budget that a pod needs as a whole, and the
// slices that it needs container by container.
func TestNeeds(t *testing.T) {
	gi := Memory{"memory": 1 << 30}
	own := Container{Name: "own", Kind: App, Guaranteed: true, MilliCPU: 2000, Memory: gi}
	shares := Container{Name: "shares", Kind: App}
	for name, test := range map[string]struct {
		pod                                          Pod
		wholeCPUs, eachCPUs, wholeMemory, eachMemory bool
	}{
		"no budget":          {Pod{Managed: true, Containers: []Container{own}}, true, true, true, true},
		"budget, a slice":    {Pod{Managed: true, Budget: &Budget{MilliCPU: 4000, Memory: gi}, Containers: []Container{own, shares}}, true, true, true, true},
		"budget, no slice":   {Pod{Managed: true, Budget: &Budget{MilliCPU: 4000, Memory: gi}, Containers: []Container{shares}}, true, false, true, false},
		"budget of fraction": {Pod{Managed: true, Budget: &Budget{MilliCPU: 4500}, Containers: []Container{own}}, false, true, false, true},
		"not managed":        {Pod{Budget: &Budget{MilliCPU: 4000, Memory: gi}, Containers: []Container{own}}, false, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.wholeCPUs, test.pod.NeedsCPUs(true))
			require.Equal(t, test.eachCPUs, test.pod.NeedsCPUs(false))
			require.Equal(t, test.wholeMemory, test.pod.NeedsMemory(true))
			require.Equal(t, test.eachMemory, test.pod.NeedsMemory(false))
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// samples reads this manager's counters: short name and labels to value.
func samples(t *testing.T) map[string]float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		name, ok := strings.CutPrefix(family.GetName(), "kubelet_")
		if !ok || !strings.HasPrefix(name, "memory_manager_pinning") && !strings.HasPrefix(name, "resource_manager_") {
			continue
		}
		for _, m := range family.GetMetric() {
			key := name
			for _, label := range m.GetLabel() {
				if label.GetName() != "resource_name" {
					key += " " + label.GetValue()
				} else if label.GetValue() != "memory" {
					key += " (not memory)"
				}
			}
			values[key] = m.GetCounter().GetValue()
		}
	}
	return values
}

// during returns by how much the counters grow while f runs.
func during(t *testing.T, f func()) map[string]float64 {
	before := samples(t)
	f()
	grown := map[string]float64{}
	for key, value := range samples(t) {
		if value != before[key] {
			grown[key] = value - before[key]
		}
	}
	return grown
}

func TestMetrics(t *testing.T) {
	setGates(t, true)
	metrics.Register()
	n := newNode(t, "best-effort", "pod")

	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":                      4, // the pod, two init containers, one exclusive
		"resource_manager_allocations_total pod":                     3,
		"resource_manager_container_assignments_total pod_exclusive": 1,
		"resource_manager_container_assignments_total pod_shared":    2,
	}, during(t, func() { n.mustAdmit(database()) }))

	require.Equal(t, map[string]float64{"memory_manager_pinning_requests_total": 1},
		during(t, func() { n.mustAdmit(database()) }), "nothing is allocated again")

	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":                       2,
		"resource_manager_allocations_total node":                     2,
		"resource_manager_container_assignments_total node_exclusive": 2,
	}, during(t, func() { n.mustAdmit(pod("p", app("a", "1", "1Gi"), app("b", "1", "1Gi"))) }))

	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":         1,
		"memory_manager_pinning_errors_total":           1,
		"resource_manager_allocation_errors_total node": 1,
	}, during(t, func() { require.False(t, n.admit(pod("big", app("a", "1", "100Gi"))).Admit) }))

	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":        1,
		"memory_manager_pinning_errors_total":          1,
		"resource_manager_allocation_errors_total pod": 1,
	}, during(t, func() {
		defer n.breakDisk()()
		require.False(t, n.admit(pod("unwritten", budget("4", "4Gi"), app("a", "", ""))).Admit)
	}), "what cannot be written is not counted as allocated")

	n = newNode(t, "best-effort", "container")
	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":                       1,
		"resource_manager_allocations_total node":                     1,
		"resource_manager_container_assignments_total node_exclusive": 1,
	}, during(t, func() { n.mustAdmit(mlWorkload()) }))
}

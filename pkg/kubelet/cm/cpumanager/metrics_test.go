// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// samples is the CPU manager's metrics as the kubelet shows them: short name and
// labels to value, or to the count of a histogram.
func samples(t *testing.T) map[string]float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		name, ok := strings.CutPrefix(family.GetName(), "kubelet_")
		if !ok || !strings.HasPrefix(name, "cpu_manager_") && !strings.HasPrefix(name, "resource_manager_") && !strings.HasPrefix(name, "container_aligned") {
			continue
		}
		for _, m := range family.GetMetric() {
			key := name
			for _, label := range m.GetLabel() {
				key += " " + label.GetName() + "=" + label.GetValue()
			}
			values[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestMetrics(t *testing.T) {
	gates(t, true)
	metrics.Register()
	n := newNode(t)
	n.options = map[string]string{FullPCPUsOnlyOption: "true"}
	n.affinity.nodes = []int{1}
	m := n.start()
	idle := samples(t)
	require.EqualValues(t, 14000, idle["cpu_manager_shared_pool_size_millicores"])
	require.Contains(t, idle, "cpu_manager_allocation_per_numa numa_node=0")
	require.Contains(t, idle, "cpu_manager_allocation_per_numa numa_node=1")
	require.Contains(t, idle, "container_aligned_compute_resources_failure_count boundary=physical_cpu scope=container")
	require.Contains(t, idle, "container_aligned_compute_resources_count boundary=uncore_cache scope=container")

	db, one := database("db"), pod("one", "", container("a", "2"))
	n.add(db)
	n.add(one)
	require.NoError(t, n.admit(m, db, true))
	require.NoError(t, n.admit(m, one, false))
	logger, _ := ktesting.NewTestContext(t)
	m.GetCPUAffinity("one", "a")
	m.AddContainer(logger, one, &one.Spec.Containers[0], "id")
	grown := map[string]float64{}
	for key, value := range samples(t) {
		if value != idle[key] {
			grown[key] = value - idle[key]
		}
	}
	require.Equal(t, map[string]float64{
		"cpu_manager_shared_pool_size_millicores":                                                       -8000,
		"cpu_manager_exclusive_cpu_allocation_count":                                                    8,
		"cpu_manager_allocation_per_numa numa_node=1":                                                   8,
		"cpu_manager_pinning_requests_total":                                                            2,
		"cpu_manager_container_start_wait_seconds":                                                      1,
		"container_aligned_compute_resources_count boundary=physical_cpu scope=container":               1,
		"container_aligned_compute_resources_count boundary=uncore_cache scope=container":               2,
		"resource_manager_allocations_total resource_name=cpu source=pod":                               3,
		"resource_manager_allocations_total resource_name=cpu source=node":                              1,
		"resource_manager_container_assignments_total assignment_type=pod_exclusive resource_name=cpu":  1,
		"resource_manager_container_assignments_total assignment_type=pod_shared resource_name=cpu":     2,
		"resource_manager_container_assignments_total assignment_type=node_exclusive resource_name=cpu": 1,
	}, grown)

	require.Error(t, n.admit(m, pod("odd", "", container("a", "3")), false))
	n.remove("db")
	n.remove("one")
	n.reconcile(m)
	end := samples(t)
	for key, value := range idle {
		if strings.Contains(key, "millicores") || strings.Contains(key, "exclusive_cpu") || strings.Contains(key, "per_numa") {
			require.Equal(t, value, end[key], key)
		}
	}
	require.EqualValues(t, 1, end["cpu_manager_pinning_errors_total"])
	require.EqualValues(t, 1, end["resource_manager_allocation_errors_total resource_name=cpu source=node"])
	require.Contains(t, end, "cpu_manager_unsettled_container_starts_total")
}

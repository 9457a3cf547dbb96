// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
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

// grownSince is what has changed since the samples were taken, and by how much.
func grownSince(t *testing.T, before map[string]float64) map[string]float64 {
	grown := map[string]float64{}
	for key, value := range samples(t) {
		if value != before[key] {
			grown[key] = value - before[key]
		}
	}
	return grown
}

// counted is what the counters of allocations grow by while f runs.
func counted(t *testing.T, f func()) map[string]float64 {
	before := samples(t)
	f()
	grown := grownSince(t, before)
	for key := range grown {
		if !strings.HasPrefix(key, "resource_manager_") && !strings.HasPrefix(key, "cpu_manager_pinning") {
			delete(grown, key)
		}
	}
	return grown
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
	grown := grownSince(t, idle)
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
	for _, key := range []string{"cpu_manager_pinning_errors_total", "resource_manager_allocation_errors_total resource_name=cpu source=node"} {
		require.EqualValues(t, 1, end[key]-idle[key], key)
	}
	require.Contains(t, end, "cpu_manager_unsettled_container_starts_total")
}

// What is on record already is not counted again when the rest is added to it.
func TestPartialRecordsCountWhatIsMissing(t *testing.T) {
	gates(t, true)
	metrics.Register()
	n := newNode(t)
	m := n.start()
	db, each := database("db"), pod("each", "4", container("a", "1"), container("b", "2"), container("c", ""))
	n.add(db)
	n.add(each)
	require.NoError(t, n.admit(m, db, true))
	require.NoError(t, n.admit(m, each, false))
	partial := m.committed.
		With("db", m.committed.Record("db").Without("backup-agent")).
		With("each", m.committed.Record("each").Without("b"))
	require.NoError(t, m.commit(partial))
	m = n.start()
	require.Equal(t, map[string]float64{
		"resource_manager_allocations_total resource_name=cpu source=pod":                           1,
		"resource_manager_container_assignments_total assignment_type=pod_shared resource_name=cpu": 1,
	}, counted(t, func() { require.NoError(t, n.admit(m, db, true)) }))
	require.Equal(t, map[string]float64{
		"cpu_manager_pinning_requests_total":                                                            1,
		"resource_manager_allocations_total resource_name=cpu source=node":                              1,
		"resource_manager_container_assignments_total assignment_type=node_exclusive resource_name=cpu": 1,
	}, counted(t, func() { require.NoError(t, n.admit(m, each, true)) }), "it was allocated container by container and stays so in scope pod")

	// Allocated as a whole, it stays so in scope container.
	require.NoError(t, m.commit(m.committed.With("db", m.committed.Record("db").Without("database"))))
	m = n.start()
	require.Equal(t, map[string]float64{
		"cpu_manager_pinning_requests_total":                                                           1,
		"resource_manager_allocations_total resource_name=cpu source=pod":                              1,
		"resource_manager_container_assignments_total assignment_type=pod_exclusive resource_name=cpu": 1,
	}, counted(t, func() { require.NoError(t, n.admit(m, db, false)) }))
}

// A record that cannot be written, or is taken back because another manager's
// cannot, is no allocation. It is counted as an error once, unless nothing was to
// be allocated.
func TestWhatIsUndoneIsNotCounted(t *testing.T) {
	gates(t, true)
	metrics.Register()
	n := newNode(t)
	m := n.start()
	logger, ctx := n.log()
	require.Equal(t, map[string]float64{"cpu_manager_pinning_requests_total": 1}, counted(t, func() {
		m.BeginAdmission(logger, "p")
		require.NoError(t, allocate(ctx, m, pod("p", "", container("a", "2")), false))
		require.NoError(t, m.CommitAdmission(logger, "p"))
		require.NoError(t, m.RollbackAdmission(logger, "p"))
	}))
	require.Empty(t, counted(t, func() {
		m.BeginAdmission(logger, "p")
		require.NoError(t, allocate(ctx, m, pod("p", "4", container("a", "2"), container("b", "")), true))
		require.NoError(t, m.CommitAdmission(logger, "p"))
		require.NoError(t, m.RollbackAdmission(logger, "p"))
	}))

	old := database("old")
	n.add(old)
	require.NoError(t, n.admit(m, old, true))
	n.breakDisk()
	require.Equal(t, map[string]float64{
		"cpu_manager_pinning_errors_total":                                      1,
		"resource_manager_allocation_errors_total resource_name=cpu source=pod": 1,
	}, counted(t, func() {
		require.Error(t, n.admit(m, pod("p", "4", container("a", "2"), container("b", "")), true))
	}))
	require.Empty(t, counted(t, func() {
		n.remove("old")
		shared := pod("shared", "", container("a", ""))
		n.add(shared)
		require.NoError(t, n.admit(m, shared, false))
	}), "the pod needs nothing; that another is gone is written later")
}

// A pod that ran before the kubelet started and does not fit is admitted; that it
// has nothing is an error, and no allocation.
func TestRunningPodsWithoutRoomCountAsErrors(t *testing.T) {
	gates(t, true)
	metrics.Register()
	n := newNode(t)
	n.before = containermap.NewContainerMap()
	n.before.Add("wide", "a", "id")
	wide := pod("wide", "20", container("a", "2"), container("b", ""))
	n.add(wide)
	m := n.start()
	require.Equal(t, map[string]float64{
		"cpu_manager_pinning_errors_total":                                      1,
		"resource_manager_allocation_errors_total resource_name=cpu source=pod": 1,
	}, counted(t, func() { require.NoError(t, n.admit(m, wide, true)) }))
}

// Resizes place nothing.
func TestResizesAreNotCounted(t *testing.T) {
	gates(t, true)
	metrics.Register()
	n := newNode(t)
	m := n.start()
	logger, ctx := n.log()
	p := pod("p", "3500m", container("a", "2"), container("b", ""))
	require.Empty(t, counted(t, func() {
		require.NoError(t, m.AllocatePod(logger, p, lifecycle.ResizeOperation))
		require.NoError(t, m.Allocate(ctx, p, &p.Spec.Containers[0], lifecycle.ResizeOperation))
	}))
	require.Zero(t, m.committed.Assigned().Size())
}

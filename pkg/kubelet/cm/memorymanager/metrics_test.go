// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// TestMain registers the kubelet's metrics with the gates on, as the kubelet that is
// tested here does. It happens once in a process, with the gates of that moment, and
// the first topology manager that is made does it.
func TestMain(m *testing.M) {
	gates := utilfeature.DefaultMutableFeatureGate
	was := map[string]bool{}
	for _, gate := range []featuregate.Feature{features.PodLevelResources, features.PodLevelResourceManagers} {
		was[string(gate)] = gates.Enabled(gate)
	}
	if err := gates.Set("PodLevelResources=true,PodLevelResourceManagers=true"); err != nil {
		panic(err)
	}
	metrics.Register()
	if err := gates.SetFromMap(was); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

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
		"memory_manager_pinning_requests_total":                      2, // the pod, one exclusive container
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

// What is on record already is not counted again when the rest is added to it.
func TestPartialRecordsCountWhatIsMissing(t *testing.T) {
	setGates(t, true)
	metrics.Register()
	n := newNode(t, "best-effort", "pod")
	plain := pod("plain", app("a", "1", "1Gi"), app("b", "1", "1Gi"))
	n.mustAdmit(database())
	n.mustAdmit(plain)
	records := n.published().Records()
	require.NoError(t, n.replace(records.With("database", records.Pod("database").Without("backup-agent")).With("plain", records.Pod("plain").Without("b"))))
	n.restart()
	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":                   1,
		"resource_manager_allocations_total pod":                  1,
		"resource_manager_container_assignments_total pod_shared": 1,
	}, during(t, func() { n.mustAdmit(database()) }))
	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":                       2,
		"resource_manager_allocations_total node":                     1,
		"resource_manager_container_assignments_total node_exclusive": 1,
	}, during(t, func() { n.mustAdmit(plain) }))

	n.scope = "container"
	require.NoError(t, n.replace(n.published().Records().With("database", records.Pod("database").Without("database"))))
	n.restart()
	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":                      1,
		"resource_manager_allocations_total pod":                     1,
		"resource_manager_container_assignments_total pod_exclusive": 1,
	}, during(t, func() { n.mustAdmit(database()) }), "it was allocated as a whole and stays so")
	require.Equal(t, records.Pod("database"), n.published().Records().Pod("database"))
}

// What is taken back because another manager could not write its record is no
// allocation.
func TestWhatIsUndoneIsNotCounted(t *testing.T) {
	setGates(t, true)
	metrics.Register()
	n := newNode(t, "best-effort", "pod")
	logger := klog.Logger{}
	require.Equal(t, map[string]float64{"memory_manager_pinning_requests_total": 1}, during(t, func() {
		n.BeginAdmission(logger, "database")
		require.NoError(t, n.AllocatePod(logger, database(), add))
		require.NoError(t, n.CommitAdmission(logger, "database"))
		require.NoError(t, n.RollbackAdmission(logger, "database"))
	}))
}

// A pod that ran before the kubelet started and does not fit is admitted; that it
// has nothing is an error, and no allocation.
func TestRunningPodsWithoutRoomCountAsErrors(t *testing.T) {
	setGates(t, true)
	metrics.Register()
	n := newNode(t, "best-effort", "pod")
	n.running = containermap.NewContainerMap()
	n.running.Add("wide", "a", "id")
	wide := pod("wide", budget("4", "100Gi"), app("a", "1", "1Gi"), app("b", "", ""))
	n.active = append(n.active, wide)
	n.restart()
	require.Equal(t, map[string]float64{
		"memory_manager_pinning_requests_total":                   1,
		"memory_manager_pinning_errors_total":                     1,
		"resource_manager_allocation_errors_total pod":            1,
		"resource_manager_state_errors_total running_pod_without": 1,
	}, during(t, func() { n.mustAdmit(wide) }))
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"os"
	"os/exec"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// The kubelet registers its metrics when its managers have been made. Whatever they
// count before must show all the same, and registering again must be no fault. Other
// tests register, too: this one has a process of its own.
func TestSeriesBeginAtZero(t *testing.T) {
	const child = "PODSLICE_TEST_CHILD"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSeriesBeginAtZero$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	logger, _ := ktesting.NewTestContext(t)
	nodes := []cadvisorapi.Node{{Id: 0}, {Id: 1}}
	_, err := NewManager(logger, nodes, PolicySingleNumaNode, PodTopologyScope, nil)
	require.NoError(t, err)
	metrics.Register()

	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			if m.Counter != nil {
				got[name] = m.Counter.GetValue()
			}
		}
	}
	for _, name := range []string{
		"kubelet_topology_manager_admission_requests_total",
		"kubelet_topology_manager_admission_errors_total",
		"kubelet_container_aligned_compute_resources_count boundary=numa_node scope=container",
		"kubelet_container_aligned_compute_resources_count boundary=numa_node scope=pod",
		"kubelet_container_aligned_compute_resources_failure_count boundary=numa_node scope=container",
		"kubelet_container_aligned_compute_resources_failure_count boundary=numa_node scope=pod",
	} {
		value, ok := got[name]
		require.True(t, ok, "no series %s", name)
		require.Zero(t, value, name)
	}
}

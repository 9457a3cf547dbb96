// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
)

// TestFeatureMetricsNeedTheGate: the kubelet registers its metrics once, by the
// gate as it is then. So each setting has a process of its own.
func TestFeatureMetricsNeedTheGate(t *testing.T) {
	const child = "PODSLICE_METRICS_GATE"
	feature := []string{"kubelet_resource_manager_allocations_total", "kubelet_resource_manager_container_assignments_total"}
	if gate := os.Getenv(child); gate != "" {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourceManagers, gate == "on")
		metrics.Register()
		n := simnode.New(t)
		n.Info = simnode.Shape{Nodes: 2, Cores: 4, Threads: 2, Memory: resource.MustParse("16Gi")}.MachineInfo()
		n.Gate, n.ReservedCPUs = gate == "on", cpuset.New(0, 8)
		require.NoError(t, n.Start())
		pod, err := simnode.ParsePod("plain\napp a cpu=2 memory=1Gi")
		require.NoError(t, err)
		n.Add(pod)
		require.True(t, n.Admit(pod).Admit)
		families, err := legacyregistry.DefaultGatherer.Gather()
		require.NoError(t, err)
		var names []string
		for _, family := range families {
			names = append(names, family.GetName())
		}
		for _, name := range feature {
			if gate == "on" {
				require.Contains(t, names, name)
			} else {
				require.NotContains(t, names, name)
			}
		}
		require.Contains(t, names, "kubelet_topology_manager_admission_duration_seconds")
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	for _, gate := range []string{"on", "off"} {
		cmd := exec.Command(program, "-test.run", "^TestFeatureMetricsNeedTheGate$", "-test.v")
		cmd.Env = append(os.Environ(), child+"="+gate)
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "gate %s: %s", gate, output)
		require.True(t, strings.Contains(string(output), "--- PASS: TestFeatureMetricsNeedTheGate"), "it did run: %s", output)
	}
}

// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/test/simnode"
)

// TestMetricsDocument holds docs/metrics.md against the metrics that there are:
// names, types and labels. For that, something is done that moves each of them.
func TestMetricsDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	documented := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(kubelet_[a-z_]+)` \\| (\\w+) \\|([^|]*)\\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = m[2] + " " + strings.ReplaceAll(m[3], "`", "")
	}
	for _, value := range []string{
		metrics.ResourceManagerCPU, metrics.ResourceManagerMemory, metrics.ResourceManagerPod, metrics.ResourceManagerNode,
		metrics.ResourceManagerExclusivePod, metrics.ResourceManagerSharedPod, metrics.ResourceManagerExclusiveNode,
	} {
		require.Contains(t, string(text), fmt.Sprintf("`%s`", value), "a label's value")
	}
	for _, reason := range podplan.Ineligibilities() {
		require.Contains(t, string(text), fmt.Sprintf("| `%s` |", reason))
	}

	for _, problem := range []topologymanager.StateProblem{topologymanager.DamagedFile, topologymanager.RunningPodWithout} {
		require.Contains(t, string(text), fmt.Sprintf("| `%s` |", problem))
	}

	registerMetrics(t)
	n := simnode.New(t)
	n.Info = simnode.Shape{Nodes: 2, Cores: 4, Threads: 2, Memory: resource.MustParse("16Gi")}.MachineInfo()
	n.ReservedCPUs = cpuset.New(0, 8)
	n.CPUOptions = map[string]string{"full-pcpus-only": "true"}
	require.NoError(t, os.WriteFile(filepath.Join(n.Dir, "cpu_manager_state"), nil, 0o600)) // is damaged
	require.NoError(t, n.Start())
	for _, text := range []string{
		"db cpu=4 memory=4Gi\napp a cpu=2 memory=1Gi\napp b",
		"plain\napp a cpu=2 memory=1Gi",
		"half cpu=1500m memory=1Gi\napp a cpu=1 memory=1Gi",
		"odd\napp a cpu=3 memory=1Gi", // no whole cores
		"wide\napp a cpu=2 memory=60Gi",
	} {
		pod, err := simnode.ParsePod(text)
		require.NoError(t, err)
		n.Add(pod)
		if !n.Admit(pod).Admit {
			n.Remove(pod.Name)
			continue
		}
		require.NoError(t, n.StartContainers(pod))
	}
	grown, err := simnode.ParsePod("db cpu=6 memory=4Gi\napp a cpu=2 memory=1Gi\napp b")
	require.NoError(t, err)
	require.False(t, n.Ask(grown, lifecycle.ResizeOperation).Admit)

	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	there := map[string]string{}
	ours := regexp.MustCompile("^kubelet_(cpu_manager|memory_manager|topology_manager|resource_manager|container_aligned|pod_infeasible)_")
	for _, family := range families {
		if !ours.MatchString(family.GetName()) {
			continue
		}
		var labels []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		there[family.GetName()] = strings.ToLower(family.GetType().String()) + " " + ordered(labels)
	}
	for name, row := range documented {
		kind, labels, _ := strings.Cut(row, " ")
		documented[name] = kind + " " + ordered(strings.FieldsFunc(labels, func(r rune) bool { return r == ',' || r == ' ' }))
	}
	require.Equal(t, there, documented)
}

// ordered writes a set in one order.
func ordered(set []string) string {
	all := map[string]bool{}
	for _, s := range set {
		all[s] = true
	}
	return fmt.Sprint(all)
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/utils/cpuset"

	ourstate "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
)

// BenchmarkStateFile admits and removes a pod with a budget and three containers
// beside so many others like it, as far as the state file goes: in one change on
// our side, one each for the shared pool, the pod, and every container on the
// kubelet's own. The file's size is reported as well.
func BenchmarkStateFile(b *testing.B) {
	featuregatetesting.SetFeatureGatesDuringTest(b, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResourceManagers: true,
	})
	for _, pods := range []int{10, 50, 100, 200, 500} {
		content := &ourstate.Content{Default: cpuset.New(0), Assignments: ourstate.ContainerCPUAssignments{}, Pods: ourstate.PodCPUAssignments{}}
		add := func(c *ourstate.Content, i int) {
			uid, first := fmt.Sprintf("0b1d5e5c-4a3f-4a53-9f6e-%012d", i), 1+4*i
			c.Pods[uid] = ourstate.PodEntry{CPUSet: cpuset.New(first, first+1, first+2, first+3)}
			c.Assignments[uid] = map[string]cpuset.CPUSet{
				"database": cpuset.New(first, first+1, first+2), "metrics-exporter": cpuset.New(first + 3), "backup-agent": cpuset.New(first + 3),
			}
		}
		for i := range pods - 1 {
			add(content, i)
		}
		more := &ourstate.Content{Default: content.Default, Assignments: content.Assignments.Clone(), Pods: content.Pods.Clone()}
		add(more, pods-1)
		last := fmt.Sprintf("0b1d5e5c-4a3f-4a53-9f6e-%012d", pods-1)
		size := func(b *testing.B, dir string) {
			info, err := os.Stat(filepath.Join(dir, "cpu_manager_state"))
			require.NoError(b, err)
			b.ReportMetric(float64(info.Size()), "B/file")
		}
		b.Run(fmt.Sprintf("pods=%d/podslice", pods), func(b *testing.B) {
			dir := b.TempDir()
			store, err := ourstate.Open(quiet, dir, "cpu_manager_state", "static", nil)
			require.NoError(b, err)
			require.NoError(b, store.Replace(content))
			for b.Loop() {
				require.NoError(b, store.Replace(more))
				require.NoError(b, store.Replace(content))
			}
			require.NoError(b, store.Replace(more))
			size(b, dir)
		})
		b.Run(fmt.Sprintf("pods=%d/kubelet", pods), func(b *testing.B) {
			dir := b.TempDir()
			store, err := ourstate.Open(quiet, dir, "cpu_manager_state", "static", nil)
			require.NoError(b, err)
			require.NoError(b, store.Replace(content))
			theirs, err := state.NewCheckpointState(quiet, dir, "cpu_manager_state", "static", nil)
			require.NoError(b, err)
			admit := func() {
				theirs.SetDefaultCPUSet(content.Default)
				theirs.SetPodCPUSet(last, more.Pods[last].CPUSet)
				for name, cpus := range more.Assignments[last] {
					theirs.SetCPUSet(last, name, cpus)
				}
			}
			for b.Loop() {
				admit()
				for name := range more.Assignments[last] {
					theirs.Delete(last, name)
				}
				theirs.DeletePod(last)
				theirs.SetDefaultCPUSet(content.Default)
			}
			admit()
			size(b, dir)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	theirstate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"

	ourstate "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// filePods are records of so many pods with a budget and three containers, on the
// nodes of a machine in turn.
func filePods(count int) memplan.Records {
	all := make(map[string]memplan.PodRecord, count)
	for i := range count {
		block := func(size uint64) []memplan.Block {
			return []memplan.Block{{Nodes: numa.SetOf(i % 8), Resource: memplan.Ordinary, Size: size}}
		}
		all[fileUID(i)] = memplan.PodRecord{Pod: block(4 * mi), Containers: map[string][]memplan.Block{
			"database": block(3 * mi), "metrics-exporter": block(mi), "backup-agent": block(mi),
		}}
	}
	return memplan.NewRecords(all)
}

func fileUID(i int) string { return fmt.Sprintf("0b1d5e5c-4a3f-4a53-9f6e-%012d", i) }

func fileSize(tb testing.TB, dir string) int64 {
	info, err := os.Stat(filepath.Join(dir, fileName))
	require.NoError(tb, err)
	return info.Size()
}

// openFile is our store on a machine of eight NUMA nodes.
func openFile(tb testing.TB, dir string) *ourstate.Store {
	var specs []memplan.NodeSpec
	for id := range 8 {
		specs = append(specs, memplan.NodeSpec{ID: id, Memory: 16 * 1024 * mi, HugePages: map[string]uint64{"hugepages-2Mi": 1024 * mi}})
	}
	machine, err := memplan.NewMachine(specs)
	require.NoError(tb, err)
	store, err := ourstate.Open(quiet, dir, fileName, "Static", machine)
	require.NoError(tb, err)
	return store
}

// BenchmarkStateFile admits and removes a pod with a budget and three containers
// beside so many others like it, as far as the state file goes: in one change on
// our side, one each for the pod, every container and the machine on the kubelet's
// own. The file's size is reported as well.
func BenchmarkStateFile(b *testing.B) {
	featuregatetesting.SetFeatureGatesDuringTest(b, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResourceManagers: true,
	})
	for _, pods := range []int{10, 50, 100, 200, 500} {
		before, after := filePods(pods-1), filePods(pods)
		b.Run(fmt.Sprintf("pods=%d/podslice", pods), func(b *testing.B) {
			dir := b.TempDir()
			store := openFile(b, dir)
			require.NoError(b, store.Replace(before))
			for b.Loop() {
				require.NoError(b, store.Replace(after))
				require.NoError(b, store.Replace(before))
			}
			require.NoError(b, store.Replace(after))
			b.ReportMetric(float64(fileSize(b, dir)), "B/file")
		})
		b.Run(fmt.Sprintf("pods=%d/kubelet", pods), func(b *testing.B) {
			dir := b.TempDir()
			require.NoError(b, openFile(b, dir).Replace(before))
			theirs, err := theirstate.NewCheckpointState(quiet, dir, fileName, "Static")
			require.NoError(b, err)
			last := fileUID(pods - 1)
			blocks := func(size uint64) []theirstate.Block {
				return []theirstate.Block{{NUMAAffinity: []int{(pods - 1) % 8}, Type: v1.ResourceMemory, Size: size}}
			}
			admit := func() {
				theirs.SetPodMemoryBlocks(last, blocks(4*mi))
				theirs.SetMemoryBlocks(last, "database", blocks(3*mi))
				theirs.SetMemoryBlocks(last, "metrics-exporter", blocks(mi))
				theirs.SetMemoryBlocks(last, "backup-agent", blocks(mi))
				theirs.SetMachineState(theirs.GetMachineState())
			}
			for b.Loop() {
				admit()
				for _, name := range []string{"database", "metrics-exporter", "backup-agent"} {
					theirs.Delete(last, name)
				}
				theirs.DeletePod(last)
				theirs.SetMachineState(theirs.GetMachineState())
			}
			admit()
			b.ReportMetric(float64(fileSize(b, dir)), "B/file")
		})
	}
}

// TestFileGrowsLinearly: each further pod adds as much as the one before it.
func TestFileGrowsLinearly(t *testing.T) {
	size := func(pods int) int64 {
		dir := t.TempDir()
		require.NoError(t, openFile(t, dir).Replace(filePods(pods)))
		return fileSize(t, dir)
	}
	none := size(0)
	one := float64(size(200)-none) / 200
	require.InEpsilon(t, one, float64(size(1000)-none)/1000, 0.01)
	t.Logf("%d bytes without pods, %.0f for each", none, one)
}

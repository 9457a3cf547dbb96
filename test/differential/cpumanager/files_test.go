// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/utils/cpuset"

	ourstate "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
)

func contents() map[string]*ourstate.Content {
	return map[string]*ourstate.Content{
		"nothing": {Default: cpuset.New(0, 1, 2, 3)},
		"containers": {
			Default:     cpuset.New(0, 3),
			Assignments: ourstate.ContainerCPUAssignments{"p": {"a": cpuset.New(1), "b": cpuset.New(2)}},
		},
		"a pod with a budget": {
			Default:     cpuset.New(0),
			Assignments: ourstate.ContainerCPUAssignments{"p": {"a": cpuset.New(1, 2), "shared": cpuset.New(3)}},
			Pods:        ourstate.PodCPUAssignments{"p": {CPUSet: cpuset.New(1, 2, 3)}},
		},
		"baselines": {
			Default:      cpuset.New(0, 3),
			Assignments:  ourstate.ContainerCPUAssignments{"p": {"a": cpuset.New(1, 2)}},
			HasBaselines: true,
		},
	}
}

// TestTheKubeletReadsOurFiles has the kubelet's own code load what we write:
// whole, and the part of it that older kubelets know.
func TestTheKubeletReadsOurFiles(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResourceManagers:               true,
		features.InPlacePodVerticalScalingExclusiveCPUs: true,
	})
	for name, content := range contents() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := ourstate.Open(quiet, dir, "cpu_manager_state", "static", nil)
			require.NoError(t, err)
			require.NoError(t, store.Replace(content))
			ours, err := os.ReadFile(filepath.Join(dir, "cpu_manager_state"))
			require.NoError(t, err)

			theirs, err := state.NewCheckpointState(quiet, dir, "cpu_manager_state", "static", nil)
			require.NoError(t, err)
			require.Equal(t, content.Default.String(), theirs.GetDefaultCPUSet().String())
			require.Equal(t, content.Assignments.String(), ourstate.ContainerCPUAssignments(theirs.GetCPUAssignments()).String())
			for pod, entry := range content.Pods {
				cpus, ok := theirs.GetPodCPUSet(pod)
				require.True(t, ok)
				require.Equal(t, entry.CPUSet.String(), cpus.String())
			}
			if content.HasBaselines {
				cpus, ok := theirs.GetBaselineCPUSet("p", "a")
				require.True(t, ok)
				require.Equal(t, "1-2", cpus.String())
			}

			manager, err := checkpointmanager.NewCheckpointManager(dir)
			require.NoError(t, err)
			old := &state.CPUManagerCheckpointV2{Entries: map[string]map[string]string{}} // as its reader has it
			require.NoError(t, manager.GetCheckpoint("cpu_manager_state", old), "the inline part and its checksum")
			require.NotZero(t, old.Checksum)

			if content.HasBaselines {
				return // the kubelet writes baselines of its own making
			}
			whole := &state.CPUManagerCheckpoint{}
			whole.CheckpointData.Entries = map[string]map[string]string{} // likewise
			require.NoError(t, manager.GetCheckpoint("cpu_manager_state", whole))
			require.NoError(t, manager.CreateCheckpoint("again", whole))
			again, err := os.ReadFile(filepath.Join(dir, "again"))
			require.NoError(t, err)
			require.Equal(t, string(again), string(ours), "the kubelet writes the same bytes")
		})
	}
}

// TestWeReadTheKubeletsFiles loads what the kubelet wrote in each format.
func TestWeReadTheKubeletsFiles(t *testing.T) {
	entries := map[string]map[string]string{"p": {"a": "1-2", "shared": "3"}}
	pods := state.PodCPUAssignments{"p": {CPUSet: cpuset.New(1, 2, 3)}}
	v4 := &state.CPUManagerCheckpoint{CheckpointData: state.CPUManagerCheckpointData{
		PolicyName: "static", DefaultCPUSet: "0", Entries: entries, PodEntries: pods,
	}}
	for name, checkpoint := range map[string]checkpointmanager.Checkpoint{
		"v2": &state.CPUManagerCheckpointV2{PolicyName: "static", DefaultCPUSet: "0", Entries: entries},
		"v3": &state.CPUManagerCheckpointV3{PolicyName: "static", DefaultCPUSet: "0", Entries: entries, PodEntries: pods},
		"v4": v4,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			manager, err := checkpointmanager.NewCheckpointManager(dir)
			require.NoError(t, err)
			require.NoError(t, manager.CreateCheckpoint("cpu_manager_state", checkpoint))
			store, err := ourstate.Open(quiet, dir, "cpu_manager_state", "static", nil)
			require.NoError(t, err)
			require.Equal(t, `{"p":{"a":"1-2","shared":"3"}}`, store.Content().GetCPUAssignments().String())
			_, ok := store.Content().GetPodCPUSet("p")
			require.Equal(t, name != "v2", ok)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package state tests that what "podslice state repair" writes is accepted by the
// managers of podslice and by upstream's own reader, with the content that the
// tool shows.
package state

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	upstreamcpu "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	upstreammemory "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nodeconfig"
	"github.com/podslice/podslice/pkg/state"
	"github.com/podslice/podslice/pkg/state/statetest"
	"github.com/podslice/podslice/test/simnode"
)

// newNode is the node of the corpus.
func newNode(t *testing.T) (*simnode.Node, state.Against) {
	n := simnode.New(t)
	n.Info = simnode.Shape{Nodes: 2, Cores: 4, Threads: 2, Memory: resource.MustParse("16Gi"), Hugepages2Mi: 1024}.MachineInfo()
	n.ReservedCPUs = cpuset.New(0, 8)
	m, err := machine.FromMachineInfo("node", n.Info)
	require.NoError(t, err)
	return n, state.Against{Machine: &m, ConfigFile: "config.yaml", Config: nodeconfig.New("config.yaml", kubeletconfig.KubeletConfiguration{
		CPUManagerPolicy: "static", MemoryManagerPolicy: "Static", ReservedSystemCPUs: "0,8",
		ReservedMemory: []kubeletconfig.MemoryReservation{{NumaNode: 0, Limits: v1.ResourceList{"memory": resource.MustParse("1Gi")}}},
		FeatureGates:   map[string]bool{"PodLevelResourceManagers": true},
	})}
}

func write(t *testing.T, dir string, w statetest.Written) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, state.CPUFileName), []byte(w.CPU), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, state.MemoryFileName), []byte(w.Memory), 0o600))
}

// TestRepairedIsAccepted has every kind of damage repaired, and upstream's reader
// and our managers read it: with the content that the tool shows, and the managers
// have nothing more to correct. So they have with what all releases write.
func TestRepairedIsAccepted(t *testing.T) {
	files := statetest.Cases(t)
	for name, damage := range statetest.Damages {
		files[name] = damage.Apply(t, statetest.Sound(t))
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		t.Run(name, func(t *testing.T) {
			n, against := newNode(t)
			write(t, n.Dir, files[name])
			read, err := state.Read(n.Dir)
			require.NoError(t, err)
			repaired, err := read.Repair(against, nil)
			require.NoError(t, err)
			write(t, n.Dir, statetest.Written{CPU: string(repaired[0].Content), Memory: string(repaired[1].Content)})
			read, err = state.Read(n.Dir)
			require.NoError(t, err)
			shown := read.View()

			checkUpstream(t, n.Dir, shown)
			run(n, shown)
			require.NoError(t, n.Start())
			n.Stop()
			after, err := state.Read(n.Dir)
			require.NoError(t, err)
			left := slices.DeleteFunc(state.Diff(shown, after.View()), func(d state.Difference) bool {
				return d.What == "CPU manager file version" || d.What == "memory manager file version"
			})
			require.Empty(t, left, "the managers have corrected something")
			require.Zero(t, state.Wrong(after.Check(against)), "%v", after.Check(against))
		})
	}
}

// run has the pods run on the node, so that what they have is kept.
func run(n *simnode.Node, shown state.View) {
	for _, p := range shown.Pods {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.UID, Namespace: "default", UID: types.UID(p.UID)}}
		for _, c := range p.Containers {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name})
		}
		n.Add(pod)
		for i := range pod.Spec.Containers {
			n.Found(pod, &pod.Spec.Containers[i])
		}
	}
}

// checkUpstream has upstream's code read the files.
func checkUpstream(t *testing.T, dir string, shown state.View) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{features.PodLevelResourceManagers: true})
	cpu, err := upstreamcpu.NewCheckpointState(klog.Logger{}, dir, state.CPUFileName, "static", containermap.ContainerMap{})
	require.NoError(t, err)
	memory, err := upstreammemory.NewCheckpointState(klog.Logger{}, dir, state.MemoryFileName, "Static")
	require.NoError(t, err)
	require.Equal(t, shown.CPU.Shared, cpu.GetDefaultCPUSet().String())
	pods, containers := 0, 0
	for _, p := range shown.Pods {
		whole, _ := cpu.GetPodCPUSet(p.UID)
		require.Equal(t, p.CPUs, whole.String())
		require.Len(t, memory.GetPodMemoryBlocks(p.UID), len(p.Memory))
		if p.CPUs != "" {
			pods++
		}
		for _, c := range p.Containers {
			cpus, _ := cpu.GetCPUSet(p.UID, c.Name)
			require.Equal(t, c.CPUs, cpus.String())
			if c.CPUs != "" {
				containers++
			}
			blocks := memory.GetMemoryBlocks(p.UID, c.Name)
			require.Len(t, blocks, len(c.Memory))
			for i, b := range blocks {
				require.Equal(t, c.Memory[i], state.BlockView{Resource: string(b.Type), Bytes: b.Size, Nodes: b.NUMAAffinity})
			}
		}
	}
	require.Len(t, cpu.GetPodCPUAssignments(), pods)
	recorded := 0
	for _, c := range cpu.GetCPUAssignments() {
		recorded += len(c)
	}
	require.Equal(t, containers, recorded)
}

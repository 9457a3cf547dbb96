// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/test/simnode"
)

// TestLocalityAgainstPlain admits random pods with devices to random nodes under
// best-effort with best-effort-locality, and each of them also, from the same
// state, without the option. What the one admits, the other admits; what can be
// aligned lies in the same place; and on the whole, CPUs and memory of a pod are
// on fewer nodes.
func TestLocalityAgainstPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	admitted, fewer, more := 0, 0, 0
	for range 40 {
		local := simnode.New(t)
		local.Info = simnode.Shape{Nodes: 2 + 2*r.IntN(2), Cores: 4, Threads: 2, Memory: resource.MustParse("16Gi")}.MachineInfo()
		local.TopologyPolicy, local.ReservedCPUs = "best-effort", cpuset.New(0)
		local.Scope = []string{"pod", "container"}[r.IntN(2)]
		local.TopologyOptions = map[string]string{topologymanager.BestEffortLocality: "true"}
		var gpus []string
		for range 1 + r.IntN(6) {
			gpus = append(gpus, fmt.Sprintf("example.com/gpu@%d", r.IntN(len(local.Info.Topology))))
		}
		var err error
		local.Devices, err = local.ParseDevices(gpus)
		require.NoError(t, err)
		require.NoError(t, local.Start())
		for i := range 6 {
			pod, err := simnode.ParsePod(fmt.Sprintf("p%d\napp a cpu=%d memory=%dGi example.com/gpu=%d", i, 1+r.IntN(9), 1+r.IntN(12), r.IntN(3)))
			require.NoError(t, err)
			plain := withoutOption(local)
			require.NoError(t, plain.Start())
			plainSays := try(plain, pod)
			localSays := try(local, pod)
			// The memory manager refuses a node that is in use in another way; the
			// option never leads there where the plain rule does not.
			if plainSays == "" {
				require.Emptyf(t, localSays, "only the option refuses %s; its node:\n%s", pod.Name, local.Describe(pod))
			}
			if plainSays != "" || localSays != "" {
				continue
			}
			admitted++
			ours, theirs := span(local, pod), span(plain, pod)
			hint := affinityOf(plain, pod)
			if hint.Preferred {
				require.Equal(t, theirs, ours, "an aligned pod lies elsewhere")
			}
			switch {
			case ours.Size() < theirs.Size():
				fewer++
			case ours.Size() > theirs.Size():
				more++
			}
		}
	}
	t.Logf("%d admitted; CPUs and memory on fewer nodes: %d, on more: %d", admitted, fewer, more)
	require.Zero(t, more)
	require.NotZero(t, fewer, "the generator is of no use")
}

// withoutOption is a node in the same state without the option.
func withoutOption(n *simnode.Node) *simnode.Node {
	twin := simnode.New(n.TB)
	twin.Info, twin.Settings = n.Info, n.Settings
	twin.TopologyOptions = nil
	for _, pod := range n.Active() {
		twin.Add(pod)
	}
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		data, err := os.ReadFile(filepath.Join(n.Dir, name))
		require.NoError(n.TB, err)
		require.NoError(n.TB, os.WriteFile(filepath.Join(twin.Dir, name), data, 0o600))
	}
	twin.Devices = n.Devices.CloneFor(twin)
	return twin
}

// try admits the pod and says why not.
func try(n *simnode.Node, pod *v1.Pod) string {
	n.Add(pod)
	result := n.Admit(pod)
	if result.Admit {
		return ""
	}
	n.Remove(pod.Name)
	return result.Message
}

func affinityOf(n *simnode.Node, pod *v1.Pod) topologymanager.TopologyHint {
	return n.Topology.GetAffinity(n.Logger, string(pod.UID), pod.Spec.Containers[0].Name)
}

// span is the NUMA nodes of the CPUs and the memory of the pod's container.
func span(n *simnode.Node, pod *v1.Pod) numa.Set {
	uid, c := string(pod.UID), &pod.Spec.Containers[0]
	var span numa.Set
	for id, cpus := range simnode.Units(n.ReadTopology(), simnode.ByNode) {
		if !cpus.Intersection(n.CPU.GetCPUAffinity(uid, c.Name)).IsEmpty() {
			span = span.Union(numa.SetOf(id))
		}
	}
	for id := range n.Memory.GetMemoryNUMANodes(n.Logger, pod, c) {
		span = span.Union(numa.SetOf(id))
	}
	return span
}

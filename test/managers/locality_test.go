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
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

var silentLogger = klog.Logger{}

// TestLocalityAgainstPlain admits random pods with devices to random nodes under
// best-effort with best-effort-locality, and each of them also, from the same
// state, without the option. What the one admits, the other admits; what can be
// aligned lies in the same place; and on the whole, CPUs and memory of a pod are
// on fewer nodes.
func TestLocalityAgainstPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	admitted, fewer, more := 0, 0, 0
	for range 40 {
		local := &node{t: t, dir: t.TempDir(), started: map[string]bool{}, wholeCores: map[string]bool{}}
		local.info = shape{nodes: 2 + 2*r.IntN(2), cores: 4, threads: 2, memory: resource.MustParse("16Gi")}.machineInfo()
		local.gates, local.policy, local.reservedCPUs = true, "best-effort", cpuset.New(0)
		local.scope = []string{"pod", "container"}[r.IntN(2)]
		local.topologyOptions = map[string]string{topologymanager.BestEffortLocality: "true"}
		var gpus []string
		for range 1 + r.IntN(6) {
			gpus = append(gpus, fmt.Sprintf("example.com/gpu@%d", r.IntN(len(local.info.Topology))))
		}
		local.devices = parseDevices(local, gpus)
		require.NoError(t, local.start())
		for i := range 6 {
			pod := parsePod(t, fmt.Sprintf("p%d\napp a cpu=%d memory=%dGi example.com/gpu=%d", i, 1+r.IntN(9), 1+r.IntN(12), r.IntN(3)))
			plain := local.twin()
			require.NoError(t, plain.start())
			plainSays := plain.try(pod)
			localSays := local.try(pod)
			// The memory manager refuses a node that is in use in another way; the
			// option never leads there where the plain rule does not.
			if plainSays == "" {
				require.Emptyf(t, localSays, "only the option refuses %s; its node:\n%s", pod.Name, local.describe(pod))
			}
			if plainSays != "" || localSays != "" {
				continue
			}
			admitted++
			ours, theirs := local.span(pod), plain.span(pod)
			hint := plain.affinityOf(pod)
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

// twin is a node in the same state without the option.
func (n *node) twin() *node {
	twin := &node{t: n.t, dir: n.t.(*testing.T).TempDir(), info: n.info, settings: n.settings, started: map[string]bool{}, wholeCores: map[string]bool{}, pods: n.active()}
	twin.topologyOptions = nil
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		data, err := os.ReadFile(filepath.Join(n.dir, name))
		require.NoError(n.t, err)
		require.NoError(n.t, os.WriteFile(filepath.Join(twin.dir, name), data, 0o600))
	}
	twin.devices = &devices{all: n.devices.all, active: twin.active, held: map[string]map[string][]int{}}
	for uid, held := range n.devices.held {
		twin.devices.held[uid] = held // nobody changes what a pod has
	}
	return twin
}

// try admits the pod and says why not.
func (n *node) try(pod *v1.Pod) string {
	n.add(pod)
	result := n.admit(pod)
	if result.Admit {
		return ""
	}
	n.remove(pod.Name)
	return result.Message
}

func (n *node) affinityOf(pod *v1.Pod) topologymanager.TopologyHint {
	return n.topology.GetAffinity(silentLogger, string(pod.UID), pod.Spec.Containers[0].Name)
}

// span is the NUMA nodes of the CPUs and the memory of the pod's container.
func (n *node) span(pod *v1.Pod) numa.Set {
	uid, c := string(pod.UID), &pod.Spec.Containers[0]
	var span numa.Set
	for id, cpus := range units(n.readTopology(), byNode) {
		if !cpus.Intersection(n.cpu.GetCPUAffinity(uid, c.Name)).IsEmpty() {
			span = span.Union(numa.SetOf(id))
		}
	}
	for id := range n.memory.GetMemoryNUMANodes(silentLogger, pod, c) {
		span = span.Union(numa.SetOf(id))
	}
	return span
}

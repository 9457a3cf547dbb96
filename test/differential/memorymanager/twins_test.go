// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	theirs "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	theirstate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	theirtopology "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	theirmask "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	ours "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager"
	ourstate "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	ourtopology "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

const (
	mi       = 1 << 20
	fileName = "memory_manager_state"
	add      = lifecycle.AddOperation
)

// hint is a hint of either side.
type hint struct {
	nodes     string
	preferred bool
}

// affinity is what both topology managers answer.
type affinity struct {
	nodes     numa.Set // empty for none
	preferred bool
}

type theirStore struct {
	theirtopology.Store
	answer *affinity
}

func (s theirStore) GetAffinity(klog.Logger, string, string) theirtopology.TopologyHint {
	h := theirtopology.TopologyHint{Preferred: s.answer.preferred}
	if !s.answer.nodes.IsEmpty() {
		h.NUMANodeAffinity, _ = theirmask.NewBitMask(s.answer.nodes.List()...)
	}
	return h
}

type ourStore struct {
	ourtopology.Store
	answer *affinity
}

func (s ourStore) GetAffinity(klog.Logger, string, string) ourtopology.TopologyHint {
	return ourtopology.HintFromNUMA(numa.Hint{Nodes: s.answer.nodes, Any: s.answer.nodes.IsEmpty(), Preferred: s.answer.preferred})
}

type allReady struct{ config.SourcesReady }

func (allReady) AllReady() bool { return true }

// twins are both managers on the same machine.
type twins struct {
	topology []cadvisorapi.Node
	reserved map[int]map[v1.ResourceName]uint64
	answer   affinity
	dir      string
	active   []*v1.Pod

	reservations []kubeletconfig.MemoryReservation
	total        resource.Quantity
	stop         context.CancelFunc
	// before is upstream's machine before the present request.
	before theirstate.NUMANodeMap

	theirs     theirs.Policy
	theirState theirstate.State
	ours       ours.Manager
}

var quiet = klog.Logger{} // a logger without a sink; upstream logs a lot

// randomMachine has nodes of unlike sizes; all have hugepages, since upstream
// panics on one that has not, and some ordinary memory.
func randomMachine(r *rand.Rand, nodes int) []cadvisorapi.Node {
	topology := make([]cadvisorapi.Node, nodes)
	for i := range topology {
		topology[i] = cadvisorapi.Node{
			Id: i, Memory: uint64(5+r.IntN(5)) * 1024 * mi,
			HugePages: []cadvisorapi.HugePagesInfo{
				{PageSize: 2048, NumPages: uint64(256 * (1 + r.IntN(3)))},
				{PageSize: 1 << 20, NumPages: uint64(r.IntN(3))},
			},
		}
	}
	return topology
}

func newTwins(t testing.TB, topology []cadvisorapi.Node) *twins {
	w := &twins{topology: topology, dir: fastDir(t), reserved: map[int]map[v1.ResourceName]uint64{}}
	var reservations []kubeletconfig.MemoryReservation
	total := resource.NewQuantity(0, resource.BinarySI)
	for _, node := range topology {
		kept := resource.NewQuantity(512*mi, resource.BinarySI)
		total.Add(*kept)
		w.reserved[node.Id] = map[v1.ResourceName]uint64{v1.ResourceMemory: 512 * mi}
		reservations = append(reservations, kubeletconfig.MemoryReservation{NumaNode: int32(node.Id), Limits: v1.ResourceList{v1.ResourceMemory: *kept}})
	}
	var err error
	w.theirState = theirstate.NewMemoryState(quiet)
	w.theirs, err = w.newTheirs()
	require.NoError(t, err)
	require.NoError(t, w.theirs.Start(quiet, w.theirState))

	w.reservations, w.total = reservations, *total
	w.startOurs(t)
	return w
}

// startOurs starts a manager of ours, the first one or after a restart.
func (w *twins) startOurs(t testing.TB) {
	var err error
	w.ours, err = ours.NewManager(quiet, "Static", &cadvisorapi.MachineInfo{Topology: w.topology}, v1.ResourceList{v1.ResourceMemory: w.total}, w.reservations, w.dir, ourStore{answer: &w.answer})
	require.NoError(t, err)
	if w.stop != nil {
		w.stop()
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), quiet))
	w.stop = cancel
	t.Cleanup(cancel)
	require.NoError(t, w.ours.Start(ctx, func() []*v1.Pod { return w.active }, allReady{}, nil, nil, nil))
}

// fastDir is a folder in memory where there is one: a hundred thousand scenarios
// are not about the disk.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "podslice")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (w *twins) newTheirs() (theirs.Policy, error) {
	return theirs.NewPolicyStatic(quiet, &cadvisorapi.MachineInfo{Topology: w.topology}, w.reserved, theirStore{answer: &w.answer})
}

// loadOurs has upstream's own code read and validate the file that we wrote.
func (w *twins) loadOurs(t testing.TB) theirstate.State {
	t.Helper()
	dir := filepath.Join(w.dir, "theirs")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	text, err := os.ReadFile(filepath.Join(w.dir, fileName))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fileName), text, 0o600))
	loaded, err := theirstate.NewCheckpointState(quiet, dir, fileName, "Static")
	require.NoError(t, err)
	policy, err := w.newTheirs()
	require.NoError(t, err)
	require.NoError(t, policy.Start(quiet, loaded), "%s", text)
	return loaded
}

func theirHints(m map[string][]theirtopology.TopologyHint) map[string][]hint {
	result := map[string][]hint{}
	for name, list := range m {
		for _, h := range list {
			result[name] = append(result[name], hint{numa.SetOf(h.NUMANodeAffinity.GetBits()...).String(), h.Preferred})
		}
		sortHints(result[name])
	}
	return result
}

func ourHints(m map[string][]ourtopology.TopologyHint) map[string][]hint {
	result := map[string][]hint{}
	for name, list := range m {
		for _, h := range list {
			result[name] = append(result[name], hint{ourtopology.HintToNUMA(h).Nodes.String(), h.Preferred})
		}
		sortHints(result[name])
	}
	return result
}

func sortHints(list []hint) {
	slices.SortFunc(list, func(a, b hint) int { return strings.Compare(a.nodes, b.nodes) })
}

// blocksText writes blocks in an order of their own: upstream's is random.
func theirBlocks(blocks []theirstate.Block) string {
	var lines []string
	for _, b := range blocks {
		lines = append(lines, fmt.Sprint(b))
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

func ourBlocks(blocks []ourstate.Block) string {
	var lines []string
	for _, b := range blocks {
		lines = append(lines, fmt.Sprint(b))
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// randomPod has up to two standard init containers, a sidecar and one or two
// application containers.
func randomPod(r *rand.Rand, uid string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)},
		Status:     v1.PodStatus{QOSClass: v1.PodQOSGuaranteed},
	}
	huge, giant := r.IntN(3) == 0, r.IntN(8) == 0
	container := func(name string) v1.Container {
		list := v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(int64(1+r.IntN(96))*64*mi, resource.BinarySI)}
		if r.IntN(4) == 0 {
			list[v1.ResourceMemory] = *resource.NewQuantity(int64(1+r.IntN(256))*64*mi, resource.BinarySI)
		}
		if huge {
			list["hugepages-2Mi"] = *resource.NewQuantity(int64(1+r.IntN(300))*2*mi, resource.BinarySI)
		}
		if giant && r.IntN(2) == 0 {
			list["hugepages-1Gi"] = *resource.NewQuantity(int64(1+r.IntN(2))*1024*mi, resource.BinarySI)
		}
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
	}
	for i := range r.IntN(3) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container(fmt.Sprintf("init%d", i)))
	}
	if r.IntN(3) == 0 {
		c := container("sidecar")
		always := v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
		pod.Spec.InitContainers = slices.Insert(pod.Spec.InitContainers, r.IntN(len(pod.Spec.InitContainers)+1), c)
	}
	for i := range 1 + r.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("app%d", i)))
	}
	return pod
}

func containers(pod *v1.Pod) []*v1.Container {
	var all []*v1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

// compareStates compares all that is recorded and derived. The sets of nodes are
// equal or apart, since pods for which the sides differ are taken away again.
func compareStates(t testing.TB, w *twins) {
	t.Helper()
	for uid, entries := range w.theirState.GetMemoryAssignments() {
		for name, blocks := range entries {
			require.Equal(t, theirBlocks(blocks), ourBlocks(w.ours.GetMemory(quiet, uid, name)), "%s %s", uid, name)
		}
		require.Equal(t, theirBlocks(w.theirState.GetPodMemoryBlocks(uid)), ourBlocks(w.ours.GetPodMemory(uid)), "%s", uid)
	}
	for uid, entries := range w.ours.State().GetMemoryAssignments() {
		for name := range entries {
			require.NotNil(t, w.theirState.GetMemoryBlocks(uid, name), "%s %s", uid, name)
		}
	}
	theirMachine, ourMachine := w.theirState.GetMachineState(), w.ours.State().GetMachineState()
	for id, node := range theirMachine {
		our := ourMachine[id]
		require.Equal(t, node.NumberOfAssignments, our.NumberOfAssignments)
		require.Equal(t, node.Cells, our.Cells, "node %d: %v", id, w.theirState.GetMemoryAssignments())
		for name := range node.MemoryMap {
			var theirFree, ourFree uint64 // only a group's sum means something
			for _, member := range node.Cells {
				theirFree += theirMachine[member].MemoryMap[name].Free
				ourFree += ourMachine[member].MemoryMap[name].Free
			}
			require.Equal(t, theirFree, ourFree, "node %d %s", id, name)
		}
	}
}

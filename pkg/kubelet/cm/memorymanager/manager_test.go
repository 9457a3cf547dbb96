// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2/ktesting"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

func TestNewManagerRefuses(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	machine := &cadvisorapi.MachineInfo{Topology: []cadvisorapi.Node{
		{Id: 0, Memory: 8 * gi, HugePages: []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: 1024}}},
		{Id: 1, Memory: 8 * gi},
	}}
	reserve := func(id int32, name, amount string) kubeletconfig.MemoryReservation {
		return kubeletconfig.MemoryReservation{NumaNode: id, Limits: v1.ResourceList{v1.ResourceName(name): resource.MustParse(amount)}}
	}
	memory := func(amount string) v1.ResourceList {
		return v1.ResourceList{"memory": resource.MustParse(amount), "cpu": resource.MustParse("1")}
	}
	for name, test := range map[string]struct {
		policy      string
		allocatable v1.ResourceList
		reserved    []kubeletconfig.MemoryReservation
		want        string
	}{
		"unknown policy":     {policy: "static", want: `unknown policy: "static"`},
		"best effort":        {policy: "BestEffort", want: `policy "BestEffort" is not available for platform "linux"`},
		"nothing reserved":   {policy: "Static", want: "[memorymanager] you should specify the system reserved memory"},
		"unknown node":       {policy: "Static", allocatable: memory("1Gi"), reserved: []kubeletconfig.MemoryReservation{reserve(2, "memory", "1Gi")}, want: "the reserved memory configuration references a NUMA node 2 that does not exist on this machine"},
		"not the same":       {policy: "Static", allocatable: memory("2Gi"), reserved: []kubeletconfig.MemoryReservation{reserve(1, "memory", "1Gi")}, want: `the total amount "1Gi" of type "memory" is not equal to the value "2Gi" determined by Node Allocatable feature`},
		"hugepages too":      {policy: "Static", allocatable: memory("1Gi"), reserved: []kubeletconfig.MemoryReservation{reserve(1, "memory", "1Gi"), reserve(0, "hugepages-2Mi", "2Mi")}, want: `the total amount "2Mi" of type "hugepages-2Mi" is not equal to the value "0" determined by Node Allocatable feature`},
		"no whole number":    {policy: "Static", allocatable: memory("1Gi"), reserved: []kubeletconfig.MemoryReservation{reserve(1, "memory", "1e30")}, want: "could not covert a variable of type Quantity to int64"},
		"more than there is": {policy: "Static", allocatable: memory("7Gi"), reserved: []kubeletconfig.MemoryReservation{reserve(0, "memory", "7Gi")}, want: "NUMA node 0: 7Gi of memory is reserved and hugepages take 2Gi, together more than the node's 8Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewManager(logger, test.policy, machine, test.allocatable, test.reserved, t.TempDir(), topologymanager.NewFakeManager(logger))
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestNonePolicyGivesNothing(t *testing.T) {
	logger, ctx := ktesting.NewTestContext(t)
	dir := t.TempDir()
	m, err := NewManager(logger, "None", &cadvisorapi.MachineInfo{}, nil, nil, dir, topologymanager.NewFakeManager(logger))
	require.NoError(t, err)
	require.NoError(t, m.Start(ctx, func() []*v1.Pod { return nil }, allReady{}, nil, nil, nil))
	p := pod("p", app("c", "1", "1Gi"))
	c := &p.Spec.Containers[0]
	require.Nil(t, m.GetTopologyHints(logger, p, c, add))
	require.Nil(t, m.GetPodTopologyHints(logger, p, add))
	require.NoError(t, m.Allocate(ctx, p, c, add))
	require.NoError(t, m.AllocatePod(logger, p, add))
	m.AddContainer(logger, p, c, "id")
	require.NoError(t, m.RemoveContainer(logger, "id"))
	require.Nil(t, m.GetMemoryNUMANodes(logger, p, c))
	require.Empty(t, m.GetAllocatableMemory(logger))
	require.Equal(t, cmqos.ResourceIsolationHost, m.GetResourceIsolationLevel(p, c))
	text, err := os.ReadFile(filepath.Join(dir, memoryManagerStateFileName))
	require.NoError(t, err)
	require.Contains(t, string(text), `{"policyName":"None","machineState":{},"checksum":`)
}

// TestReferencePods admits the two reference pods, restarts, and admits them
// twice again: nothing moves and nothing is written.
func TestReferencePods(t *testing.T) {
	setGates(t, true)
	logger, _ := ktesting.NewTestContext(t)

	n := newNode(t, "single-numa-node", "pod")
	db := database()
	n.mustAdmit(db)
	block := func(size uint64) []state.Block {
		return []state.Block{{NUMAAffinity: []int{0}, Type: "memory", Size: size * gi}}
	}
	check := func() {
		t.Helper()
		require.Equal(t, block(16), n.GetPodMemory("database"))
		require.Equal(t, block(12), n.GetMemory(logger, "database", "database"))
		for _, name := range []string{"metrics-exporter", "backup-agent"} {
			require.Equal(t, block(4), n.GetMemory(logger, "database", name))
		}
		require.EqualValues(t, 15, n.free(0))
		require.Equal(t, 1, n.State().GetMachineState()[0].NumberOfAssignments)
	}
	check()
	written, stamp := n.content(), n.stamp()
	for range 2 {
		n.restart()
		n.mustAdmit(db)
		n.mustAdmit(db)
		check()
		require.Equal(t, written, n.content())
		require.True(t, os.SameFile(stamp, n.stamp()), "the file was replaced")
	}
	isolation := func(p *v1.Pod, c v1.Container) cmqos.ResourceIsolationLevel {
		return n.GetResourceIsolationLevel(p, &c)
	}
	require.Equal(t, cmqos.ResourceIsolationContainer, isolation(db, db.Spec.Containers[0]))
	require.Equal(t, cmqos.ResourceIsolationPod, isolation(db, db.Spec.InitContainers[0]))
	require.Equal(t, sets.New(0), n.GetMemoryNUMANodes(logger, db, &db.Spec.InitContainers[1]))

	n = newNode(t, "single-numa-node", "container")
	ml := mlWorkload()
	n.mustAdmit(ml)
	require.Empty(t, n.GetPodMemory("ml"))
	require.Equal(t, block(6), n.GetMemory(logger, "ml", "ml-training"))
	require.Equal(t, cmqos.ResourceIsolationContainer, isolation(ml, ml.Spec.Containers[0]))
	require.Equal(t, cmqos.ResourceIsolationHost, isolation(ml, ml.Spec.InitContainers[0]))
	require.Nil(t, n.GetMemoryNUMANodes(logger, ml, &ml.Spec.InitContainers[0]))
	written, stamp = n.content(), n.stamp()
	n.restart()
	n.mustAdmit(ml)
	n.mustAdmit(ml)
	require.Equal(t, written, n.content())
	require.True(t, os.SameFile(stamp, n.stamp()))
}

// TestEndedInitContainers is kubernetes/kubernetes#123971: pods whose init
// containers have ended are admitted again after a restart.
func TestEndedInitContainers(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	for _, scope := range []string{"container", "pod"} {
		t.Run(scope, func(t *testing.T) {
			n := newNode(t, "single-numa-node", scope)
			a := pod("a", initContainer("init", "1", "25Gi"), app("main", "1", "20Gi"))
			b := pod("b", initContainer("init", "1", "25Gi"), app("main", "1", "25Gi"))
			n.mustAdmit(a)
			n.mustAdmit(b)
			require.EqualValues(t, 31-25, n.free(0))
			for _, p := range []*v1.Pod{a, b} {
				n.AddContainer(logger, p, &p.Spec.InitContainers[0], "init-"+p.Name)
				n.AddContainer(logger, p, &p.Spec.Containers[0], "main-"+p.Name)
			}
			written := n.content()
			require.EqualValues(t, 31-25, n.free(0), "what main did not take over may be needed again")
			n.restart()
			for range 2 {
				n.mustAdmit(a)
				n.mustAdmit(b)
			}
			require.Equal(t, written, n.content())

			// The sandbox is made anew: the init containers run again, where they
			// ran, on what the pod has.
			for _, p := range []*v1.Pod{a, b} {
				init := &p.Spec.InitContainers[0]
				require.Equal(t, n.GetMemoryNUMANodes(logger, p, &p.Spec.Containers[0]), n.GetMemoryNUMANodes(logger, p, init))
				require.Equal(t, cmqos.ResourceIsolationContainer, n.GetResourceIsolationLevel(p, init))
				n.AddContainer(logger, p, init, "init-again-"+p.Name)
				require.EqualValues(t, 31-25, n.free(0))
			}
			require.Equal(t, written, n.content())

			// As the kubelet's own memory manager leaves it: without the entry.
			n.mu.Lock()
			records := n.published().Records()
			left := records.Pod("a")
			delete(left.Containers, "init")
			require.NoError(t, n.replace(records.With("a", left)))
			n.mu.Unlock()
			written = n.content()
			n.restart()
			n.mustAdmit(a)
			require.Equal(t, written, n.content())
			require.Equal(t, sets.New(0), n.GetMemoryNUMANodes(logger, a, &a.Spec.InitContainers[0]), "it runs again where its pod is")
		})
	}
}

func TestFailingDisk(t *testing.T) {
	setGates(t, true)
	for _, scope := range []string{"container", "pod"} {
		t.Run(scope, func(t *testing.T) {
			n := newNode(t, "best-effort", scope)
			n.mustAdmit(pod("old", app("c", "1", "1Gi")))
			repair := n.breakDisk()
			for _, p := range []*v1.Pod{database(), pod("ordinary", app("a", "1", "1Gi"), app("b", "1", "1Gi"))} {
				result := n.admit(p)
				require.False(t, result.Admit)
				require.Contains(t, result.Message, "the state could not be saved")
				require.Len(t, n.State().GetMemoryAssignments(), 1, "nothing is taken")
			}
			repair()
			written := n.content()
			n.restart()
			require.Equal(t, written, n.content())
			n.mustAdmit(database())
		})
	}
}

// TestAtOnceWithAForeignTopologyManager calls the manager without transactions.
func TestAtOnceWithAForeignTopologyManager(t *testing.T) {
	setGates(t, true)
	n := newNode(t, "none", "")
	logger, ctx := ktesting.NewTestContext(t)
	p := pod("p", app("a", "1", "1Gi"), app("b", "1", "2Gi"))
	db := database()
	n.active = []*v1.Pod{p, db}
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[0], add))
	require.Contains(t, n.content(), `"p":{"a":[{`)
	require.NotContains(t, n.content(), `"b":[{`)
	require.NoError(t, n.AllocatePod(logger, db, add))
	require.Contains(t, n.content(), `memoryBlocks`)

	written := n.content()
	require.NoError(t, n.AllocatePod(logger, db, add))
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[0], add))
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[1], resizing))
	require.NoError(t, n.AllocatePod(logger, p, resizing))
	require.Nil(t, n.GetTopologyHints(logger, p, &p.Spec.Containers[1], resizing))
	require.Nil(t, n.GetPodTopologyHints(logger, p, resizing))
	require.NoError(t, n.RollbackAdmission(logger, "p"), "nothing of this admission")
	require.NoError(t, n.CommitAdmission(logger, "p"))
	require.Equal(t, written, n.content())

	repair := n.breakDisk()
	require.ErrorContains(t, n.Allocate(ctx, p, &p.Spec.Containers[1], add), "the state could not be saved")
	repair()
	require.Nil(t, n.GetMemory(logger, "p", "b"))
}

func TestRollback(t *testing.T) {
	logger, ctx := ktesting.NewTestContext(t)
	n := newNode(t, "best-effort", "container")
	p, gone := pod("p", app("a", "1", "1Gi"), app("b", "1", "2Gi")), pod("gone", app("c", "1", "4Gi"))
	n.mustAdmit(gone)
	before := n.content()
	n.remove(gone)
	n.active = append(n.active, p)

	// Staged: invisible, unwritten, dropped.
	n.BeginAdmission(logger, "p")
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[0], add))
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[1], add))
	require.Nil(t, n.GetMemory(logger, "p", "a"))
	require.NoError(t, n.RollbackAdmission(logger, "p"))
	require.NoError(t, n.CommitAdmission(logger, "p"), "nothing is left to commit")
	require.Equal(t, before, n.content())

	// Committed: one write, with the pod that is gone, and given back.
	n.BeginAdmission(logger, "p")
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[0], add))
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[1], add))
	require.Equal(t, before, n.content())
	require.NoError(t, n.CommitAdmission(logger, "p"))
	require.Len(t, n.GetMemory(logger, "p", "b"), 1)
	require.Empty(t, n.GetMemory(logger, "gone", "c"))
	require.NoError(t, n.RollbackAdmission(logger, "p"))
	require.Empty(t, n.State().GetMemoryAssignments())
	require.NotContains(t, n.content(), `"p"`)

	// What was recorded before the admission stays.
	n.mustAdmit(p)
	before = n.content()
	n.BeginAdmission(logger, "p")
	require.NoError(t, n.Allocate(ctx, p, &p.Spec.Containers[0], add))
	require.NoError(t, n.CommitAdmission(logger, "p"))
	require.NoError(t, n.RollbackAdmission(logger, "p"))
	require.Equal(t, before, n.content())
}

// TestGateOffAndOn turns the gate off and on again over a pod that runs.
func TestGateOffAndOn(t *testing.T) {
	setGates(t, true)
	logger, _ := ktesting.NewTestContext(t)
	n := newNode(t, "single-numa-node", "pod")
	db, ml := database(), mlWorkload()
	n.mustAdmit(db)
	written := n.content()

	setGates(t, false)
	n.restart()
	n.mustAdmit(db)
	require.Equal(t, written, n.content())
	require.Len(t, n.GetPodMemory("database"), 1)
	require.Equal(t, cmqos.ResourceIsolationPod, n.GetResourceIsolationLevel(db, &db.Spec.InitContainers[0]))
	require.Equal(t, cmqos.ResourceIsolationContainer, n.GetResourceIsolationLevel(db, &db.Spec.Containers[0]))
	n.mustAdmit(ml)
	require.Empty(t, n.GetMemory(logger, "ml", "ml-training"), "pods with a budget get nothing now")
	require.Equal(t, written, n.content())

	setGates(t, true)
	n.restart()
	n.mustAdmit(db)
	require.Equal(t, written, n.content())
	n.remove(db)
	setGates(t, false)
	n.mustAdmit(pod("next", app("c", "1", "30Gi")))
	require.Empty(t, n.GetPodMemory("database"), "what is gone is collected whatever the gate says")
}

// TestRunningPodIsNotRefused: the state file is lost, or a gate was turned on,
// and a pod that runs does not fit any more.
func TestRunningPodIsNotRefused(t *testing.T) {
	setGates(t, true)
	n := newNode(t, "single-numa-node", "pod")
	full := pod("full", app("c", "1", "31Gi"))
	n.mustAdmit(full)
	n.running = containermap.NewContainerMap()
	big, empty := pod("big", budget("4", "40Gi"), app("c", "2", "30Gi"), app("shared", "", "")), pod("empty", budget("4", "8Gi"), app("c", "4", "8Gi"), app("shared", "", ""))
	n.running.Add("big", "c", "id1")
	n.running.Add("empty", "c", "id2")
	n.running.Add("fits", "c", "id3")
	fits := pod("fits", app("c", "1", "1Gi"))
	n.active = append(n.active, big, empty, fits)
	n.restart()
	written := n.content()
	n.mustAdmit(full)
	n.mustAdmit(big)
	n.mustAdmit(empty)
	require.Equal(t, written, n.content())
	n.mustAdmit(fits)
	require.Len(t, n.State().GetMemoryAssignments(), 2, "what fits is allocated")

	result := n.admit(pod("new", budget("4", "40Gi"), app("c", "1", "1Gi"), app("shared", "", "")))
	require.False(t, result.Admit)
	require.Equal(t, "TopologyAffinityError", result.Reason)
	require.Contains(t, result.Message, "asked for 40Gi; free: NUMA node 0: 0 of 31Gi, 1Gi reserved, in use by single-node allocations")
}

func TestRefusals(t *testing.T) {
	setGates(t, true)
	empty := pod("empty", budget("4", "8Gi"), sidecar("s", "", ""), app("c", "2", "8Gi"))
	huge := pod("huge", app("c", "1", "1Gi"))
	huge.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("1e30")
	for name, test := range map[string]struct {
		policy       string
		pod          *v1.Pod
		reason, want string
	}{
		"empty pool, best effort":       {"best-effort", empty, "EmptyPodSharedPoolError", "pod rejected, sum of exclusive container memory requests equals pod budget, leaving no memory for shared containers"},
		"empty pool, restricted":        {"restricted", empty, "TopologyAffinityError", "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"},
		"no room, restricted":           {"restricted", pod("big", app("c", "1", "100Gi")), "TopologyAffinityError", "Resources cannot be allocated with Topology locality"},
		"no room, best effort":          {"best-effort", pod("big", app("c", "1", "100Gi")), "UnexpectedAdmissionError", "[memorymanager] failed to find NUMA nodes to extend the current topology hint: asked for memory 100Gi on NUMA nodes 0-1"},
		"quantity nobody can represent": {"best-effort", huge, "UnexpectedAdmissionError", "[memorymanager] failed to represent quantity as int64"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, test.policy, "pod")
			result := n.admit(test.pod)
			require.False(t, result.Admit)
			require.Equal(t, test.reason, result.Reason)
			require.Contains(t, result.Message, test.want)
			if test.reason == "EmptyPodSharedPoolError" {
				require.True(t, strings.HasPrefix(result.Message, test.want))
			}
			require.Empty(t, n.State().GetMemoryAssignments())
		})
	}
}

func TestCollectWritesOnce(t *testing.T) {
	n := newNode(t, "best-effort", "container")
	logger, _ := ktesting.NewTestContext(t)
	for _, uid := range []string{"a", "b", "c"} {
		p := pod(uid, app("c", "1", "1Gi"))
		n.mustAdmit(p)
		n.AddContainer(logger, p, &p.Spec.Containers[0], "id-"+uid)
	}
	n.active = n.active[:1]
	repair := n.breakDisk()
	n.collect(logger, "")
	require.Len(t, n.State().GetMemoryAssignments(), 3, "kept until it can be written")
	repair()
	n.collect(logger, "")
	require.Len(t, n.State().GetMemoryAssignments(), 1)
	require.NoError(t, n.RemoveContainer(logger, "id-b"), "forgotten")
	require.NoError(t, n.RemoveContainer(logger, "id-a"))
	require.Empty(t, n.State().GetMemoryAssignments())
	require.NotContains(t, n.content(), `"entries"`)
}

func TestReadersAreOrderedCopies(t *testing.T) {
	n := newNode(t, "best-effort", "container")
	logger, _ := ktesting.NewTestContext(t)
	want := []state.Block{
		{NUMAAffinity: []int{0}, Type: "memory", Size: 31 * gi},
		{NUMAAffinity: []int{1}, Type: "memory", Size: 31 * gi},
	}
	n.GetAllocatableMemory(logger)[0].Size = 1
	require.Equal(t, want, n.GetAllocatableMemory(logger))
}

func TestPeriodicCollectionEndsWithItsContext(t *testing.T) {
	n := newNode(t, "best-effort", "container")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.collectForEver(ctx)
}

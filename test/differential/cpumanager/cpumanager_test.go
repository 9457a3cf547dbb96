// SPDX-License-Identifier: Apache-2.0

// Package cpumanager runs our choice of CPUs beside the kubelet's own on the
// same inputs: machines of regular shape, on which the kubelet's is right.
package cpumanager

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// quiet keeps the kubelet's log of every step out of the output.
var quiet = logr.Discard()

// machine is a regular machine, for both sides.
type machine struct {
	upstream *topology.CPUTopology
	ours     *cpuplan.Topology
}

// newMachine has the given number of units in each unit above. Threads of a
// core have adjacent IDs or, as most machines number them, IDs far apart. With
// merged nodes, two sockets make one NUMA node.
func newMachine(sockets, nodesPerSocket, coresPerNode, threads int, adjacent, merged bool) machine {
	cores := sockets * nodesPerSocket * coresPerNode
	up := &topology.CPUTopology{
		NumCPUs: cores * threads, NumCores: cores, NumSockets: sockets,
		NumNUMANodes: sockets * nodesPerSocket, NumUncoreCache: sockets, CPUDetails: topology.CPUDetails{},
	}
	var cpus []cpuplan.CPU
	for core := range cores {
		node := core / coresPerNode
		first := core
		if adjacent {
			first = core * threads
		}
		for thread := range threads {
			id := core + thread*cores
			if adjacent {
				id = first + thread
			}
			c := cpuplan.CPU{ID: id, Core: first, Node: node, Socket: node / nodesPerSocket, Cache: node / nodesPerSocket}
			if merged {
				c.Node = c.Socket / 2
			}
			cpus = append(cpus, c)
			up.CPUDetails[id] = topology.CPUInfo{NUMANodeID: c.Node, SocketID: c.Socket, CoreID: c.Core, UncoreCacheID: c.Cache}
		}
	}
	ours, err := cpuplan.NewTopology(cpus)
	if err != nil {
		panic(err)
	}
	up.NumNUMANodes = ours.Nodes().Size()
	return machine{up, ours}
}

func randomMachine(r *rand.Rand) machine {
	return newMachine(1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(6), 1+r.IntN(2), r.IntN(2) == 0, r.IntN(4) == 0)
}

// affinity is a store that both sides ask; nil bits mean any node.
type affinity struct{ bits []int }

func (a *affinity) GetAffinity(klog.Logger, string, string) topologymanager.TopologyHint {
	if a.bits == nil {
		return topologymanager.TopologyHint{}
	}
	mask, _ := bitmask.NewBitMask(a.bits...)
	return topologymanager.TopologyHint{NUMANodeAffinity: mask}
}
func (*affinity) GetPolicy() topologymanager.Policy { return topologymanager.NewNonePolicy() }
func (*affinity) Name() string                      { return "container" }

func (a *affinity) hint() numa.Hint {
	return numa.Hint{Any: a.bits == nil, Nodes: numa.SetOf(a.bits...)}
}

func guaranteedPod(uid string, cpus int) *v1.Pod {
	list := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(cpus), resource.DecimalSI), v1.ResourceMemory: resource.MustParse("1Gi")}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}},
	}
}

func text(cpus cpuplan.Set) string { return cpuset.New(cpus.List()...).String() }

// TestSameCPUs admits and removes random pods on both sides and compares hints,
// CPUs and the shared pool after each step.
func TestSameCPUs(t *testing.T) {
	logger := quiet
	r := rand.New(rand.NewPCG(7, 8))
	allocations := 0
	for round := range 400 {
		m := randomMachine(r)
		total := m.ours.All().Size()
		reserved := 1 + r.IntN(min(4, total))
		store := &affinity{}
		policy, err := cpumanager.NewStaticPolicy(logger, m.upstream, reserved, cpuset.New(), store, nil)
		require.NoError(t, err)
		theirs := state.NewMemoryState(logger)
		require.NoError(t, policy.Start(logger, theirs))
		node, err := cpuplan.NewNode(m.ours, cpuplan.Set{}, reserved, cpuplan.Options{})
		require.NoError(t, err)
		require.Equal(t, policy.GetAllocatableCPUs(theirs).String(), text(node.Allocatable()), "reserved CPUs")

		var ours cpuplan.State
		for step := range 40 {
			if uids := ours.PodUIDs(); len(uids) > 0 && r.IntN(3) == 0 {
				uid := uids[r.IntN(len(uids))]
				ours = ours.Without(uid)
				require.NoError(t, policy.RemoveContainer(logger, theirs, uid, "c"))
				continue
			}
			store.bits = nil
			if r.IntN(2) == 0 {
				store.bits = randomBits(r, m.ours.Nodes())
			}
			pod := guaranteedPod(fmt.Sprintf("p%d", step), 1+r.IntN(max(1, total/2)))
			plan, err := podplan.FromSpec(pod, podplan.Facts{Guaranteed: true})
			require.NoError(t, err)
			compareHints(t, node, ours, plan, policy.GetTopologyHints(logger, theirs, pod, &pod.Spec.Containers[0], lifecycle.AddOperation)["cpu"])

			theirErr := policy.Allocate(logger, theirs, pod, &pod.Spec.Containers[0], lifecycle.AddOperation)
			record, ourErr := node.PlanContainer(ours, plan, plan.Containers[0], store.hint())
			require.Equal(t, theirErr == nil, ourErr == nil, "round %d: theirs %v, ours %v", round, theirErr, ourErr)
			if ourErr == nil {
				allocations++
				ours = ours.With(plan.UID, record)
				require.Equal(t, theirs.GetCPUSetOrDefault(plan.UID, "c").String(), text(record.Containers["c"]), "round %d", round)
			} else {
				// The kubelet's numbers are those after it took what the affinity's
				// nodes have; ours are what was asked for and what there is.
				require.ErrorContains(t, theirErr, "not enough cpus available to satisfy request")
				require.ErrorContains(t, ourErr, "not enough cpus available to satisfy request")
			}
			require.Equal(t, theirs.GetDefaultCPUSet().String(), text(node.Shared(ours)))
		}
	}
	require.Greater(t, allocations, 3000)
}

// compareHints requires the same masks. They may differ in what is preferred in
// one way: the kubelet counts reserved CPUs when it looks for the narrowest
// mask (kubernetes/kubernetes issue 132187), so its narrowest can be one that
// no pod can ever get.
func compareHints(t *testing.T, node *cpuplan.Node, s cpuplan.State, plan podplan.Pod, theirs []topologymanager.TopologyHint) {
	t.Helper()
	ours, ok := node.ContainerHints(s, plan, plan.Containers[0])
	require.True(t, ok)
	require.Len(t, ours.Hints, len(theirs))
	ourNarrowest, theirNarrowest := 0, 0
	for i, hint := range ours.Hints {
		require.Equal(t, theirs[i].NUMANodeAffinity.GetBits(), hint.Nodes.List())
		if hint.Preferred {
			ourNarrowest = hint.Nodes.Size()
		}
		if theirs[i].Preferred {
			theirNarrowest = hint.Nodes.Size()
		}
	}
	if theirNarrowest > 0 && ourNarrowest > 0 {
		require.GreaterOrEqual(t, ourNarrowest, theirNarrowest)
	}
	usable := node.Allocatable().Size() == node.Topology().All().Size()
	if usable {
		require.Equal(t, theirNarrowest, ourNarrowest)
	}
}

func randomBits(r *rand.Rand, nodes numa.Set) []int {
	bits := numa.SetFromBits(nodes.Bits() & r.Uint64()).List()
	if len(bits) == 0 {
		return nodes.List()
	}
	return bits
}

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"math"
	"testing"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
)

// TestMachineThatDrifts restarts on machines and configurations that are not
// what they were (kubernetes/kubernetes 131253, 109996, 80452): the pod keeps
// what it has, and what is left is counted on the machine of today.
func TestMachineThatDrifts(t *testing.T) {
	for name, test := range map[string]struct {
		change func(n *node)
		free   float64 // on the pod's node, in Gi
	}{
		"a page moves between the nodes": {func(n *node) {
			n.topology[0].Memory -= 4096
			n.topology[1].Memory += 4096
		}, 31 - 20 - 4096.0/gi},
		"more is reserved": {func(n *node) {
			n.reserved[0].Limits = v1.ResourceList{"memory": resource.MustParse("2Gi")}
		}, 30 - 20},
		"hugepages are new": {func(n *node) {
			n.topology[0].HugePages = []cadvisorapi.HugePagesInfo{{PageSize: 1 << 20, NumPages: 4}}
		}, 27 - 20},
		"a node is new": {func(n *node) {
			n.topology = append(n.topology, cadvisorapi.Node{Id: 2, Memory: 8 * gi})
		}, 31 - 20},
		"another node is gone": {func(n *node) {
			n.topology, n.reserved = n.topology[:1], n.reserved[:1]
		}, 31 - 20},
		"less than the pod has is left": {func(n *node) {
			n.topology[0].Memory = 16 * gi
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "single-numa-node", "container")
			p := pod("p", app("c", "1", "20Gi"))
			n.mustAdmit(p)
			test.change(n)
			n.restart()
			n.mustAdmit(p)
			require.Equal(t, []int{0}, n.GetMemory(klog.Logger{}, "p", "c")[0].NUMAAffinity)
			require.InDelta(t, test.free, n.free(0), 1e-9)
			for id, node := range n.State().GetMachineState() {
				for name, table := range node.MemoryMap {
					require.Equal(t, table.Allocatable, table.Reserved+table.Free, "node %d %s", id, name)
				}
			}
			written := n.content()
			n.restart()
			n.mustAdmit(p)
			require.Equal(t, written, n.content())
		})
	}

	// What has no place any more is dropped, and the running pod placed anew.
	n := newNode(t, "single-numa-node", "container")
	p := pod("p", app("c", "1", "20Gi"))
	n.mustAdmit(p)
	n.topology, n.reserved = n.topology[1:], n.reserved[1:]
	n.restart()
	require.Empty(t, n.State().GetMemoryAssignments())
	n.mustAdmit(p)
	require.Equal(t, []int{1}, n.GetMemory(klog.Logger{}, "p", "c")[0].NUMAAffinity)
}

// TestNoneOverPodsThatRun: what Static gave stays the pods' until they end, and
// nothing is given any more.
func TestNoneOverPodsThatRun(t *testing.T) {
	setGates(t, true)
	n := newNode(t, "restricted", "pod")
	db, web := database(), pod("web", app("c", "1", "20Gi"))
	n.mustAdmit(db)
	n.mustAdmit(web)
	on := n.GetMemory(klog.Logger{}, "web", "c")[0].NUMAAffinity

	n.memoryPolicy = policyTypeNone
	for range 2 {
		n.restart()
		n.mustAdmit(db)
		n.mustAdmit(web)
		require.Equal(t, on, n.GetMemoryNUMANodes(klog.Logger{}, web, &web.Spec.Containers[0]).UnsortedList(), "it is bound when it starts again")
		require.Len(t, n.GetPodMemory("database"), 1)
		require.Empty(t, n.GetAllocatableMemory(klog.Logger{}))
	}
	late := pod("late", app("c", "1", "1Gi"))
	n.mustAdmit(late)
	require.Nil(t, n.GetMemoryNUMANodes(klog.Logger{}, late, &late.Spec.Containers[0]))
	n.remove(web)
	require.Eventually(t, func() bool { return n.State().GetMemoryBlocks("web", "c") == nil }, 10*time.Second, 10*time.Millisecond)

	n.memoryPolicy = PolicyTypeStatic
	n.restart()
	n.mustAdmit(db)
	require.Len(t, n.State().GetMemoryAssignments(), 1)
	require.EqualValues(t, 62-16, n.free(0)+n.free(1))
}

// TestPagesNobodyHas: a size of hugepages that no node has is refused under
// every policy, with the reason, and so is more than there is.
func TestPagesNobodyHas(t *testing.T) {
	for _, policy := range []string{"best-effort", "restricted", "single-numa-node"} {
		for _, scope := range []string{"container", "pod"} {
			n := newNode(t, policy, scope)
			p := pod("p", app("c", "1", "1Gi"))
			p.Spec.Containers[0].Resources.Requests["hugepages-1Gi"] = resource.MustParse("1Gi")
			result := n.admit(p)
			require.False(t, result.Admit)
			if policy == "best-effort" {
				require.Contains(t, result.Message, "no NUMA node has hugepages-1Gi; NUMA node 0: memory 31Gi free of 31Gi, no hugepages-1Gi")
			} else {
				require.Equal(t, "TopologyAffinityError", result.Reason)
				require.Contains(t, result.Message, "hugepages-1Gi: not available on any set of NUMA nodes (asked for 1Gi; 2 nodes without hugepages-1Gi)")
			}
			require.Empty(t, n.State().GetMemoryAssignments())
		}
	}
}

// TestUnionOfContainers: what a pod needs is what any of its containers of any
// kind names, the init containers' own resources too.
func TestUnionOfContainers(t *testing.T) {
	n := newNode(t, "restricted", "pod")
	p := pod("p", initContainer("load", "1", "1Gi"), app("c", "1", "2Gi"))
	p.Spec.InitContainers[0].Resources.Requests["hugepages-2Mi"] = resource.MustParse("2Mi")
	hints := n.GetPodTopologyHints(klog.Logger{}, p, add)
	require.Len(t, hints, 2)
	require.Empty(t, hints["hugepages-2Mi"], "upstream asks for what application containers name only")
	require.False(t, n.admit(p).Admit)
}

// TestConfigurationErrors has upstream's sentences, and the amounts of both
// sides by node.
func TestConfigurationErrors(t *testing.T) {
	info := &cadvisorapi.MachineInfo{Topology: []cadvisorapi.Node{{Id: 0, Memory: 8 * gi}, {Id: 1, Memory: 8 * gi}}}
	reserve := func(amounts map[int32]v1.ResourceList) (list []kubeletconfig.MemoryReservation) {
		for id := range int32(4) {
			if limits, ok := amounts[id]; ok {
				list = append(list, kubeletconfig.MemoryReservation{NumaNode: id, Limits: limits})
			}
		}
		return list
	}
	memory := func(text string) v1.ResourceList { return v1.ResourceList{"memory": resource.MustParse(text)} }
	for want, test := range map[string]struct {
		total    v1.ResourceList
		reserved map[int32]v1.ResourceList
	}{
		`the total amount "3Gi" of type "memory" is not equal to the value "1Gi" determined by Node Allocatable feature: reserved are 1Gi on NUMA node 0, 2Gi on NUMA node 1`: {memory("1Gi"), map[int32]v1.ResourceList{0: memory("1Gi"), 1: memory("2Gi")}},
		`the total amount "0" of type "memory" is not equal to the value "1Gi" determined by Node Allocatable feature: reserved are none on any NUMA node`:                    {memory("1Gi"), nil},
		`the reserved memory configuration references a NUMA node 3 that does not exist on this machine, which has [0 1]`:                                                     {memory("1Gi"), map[int32]v1.ResourceList{3: memory("1Gi")}},
		`[memorymanager] the reserved memory does not fit the machine: NUMA node 0: 9Gi of memory is reserved and hugepages take 0, together more than the node's 8Gi`:        {memory("9Gi"), map[int32]v1.ResourceList{0: memory("9Gi")}},
		`[memorymanager] you should specify the system reserved memory`:                                                                                                       {nil, nil},
	} {
		_, err := NewManager(klog.Logger{}, "Static", info, test.total, reserve(test.reserved), t.TempDir(), nil)
		require.EqualError(t, err, want)
	}
}

// FuzzMachine: whatever cAdvisor and the configuration say, no amount wraps:
// either it is refused, or everything adds up.
func FuzzMachine(f *testing.F) {
	f.Add(uint64(8*gi), uint64(2048), uint64(512), int64(gi))
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), uint64(math.MaxUint64), int64(math.MaxInt64))
	f.Add(uint64(math.MaxUint64), uint64(1<<54), uint64(1), int64(1))
	f.Add(uint64(1)<<63, uint64(1<<20), uint64(1<<34), int64(1))
	f.Fuzz(func(t *testing.T, size, pageKiB, pages uint64, reserved int64) {
		info := &cadvisorapi.MachineInfo{Topology: []cadvisorapi.Node{
			{Id: 0, Memory: size, HugePages: []cadvisorapi.HugePagesInfo{{PageSize: pageKiB, NumPages: pages}, {PageSize: 4, NumPages: pages}}},
			{Id: 1, Memory: size, HugePages: []cadvisorapi.HugePagesInfo{{PageSize: pageKiB, NumPages: pages}}},
		}}
		list := v1.ResourceList{"memory": *resource.NewQuantity(reserved, resource.BinarySI)}
		machine, err := machineOf(PolicyTypeStatic, info, list, []kubeletconfig.MemoryReservation{{NumaNode: 0, Limits: list}})
		if err != nil {
			return
		}
		for id := range machine.Nodes().All() {
			var all uint64
			for name, c := range machine.Resources(id) {
				require.LessOrEqual(t, c.Reserved, c.Total, name)
				require.LessOrEqual(t, c.Allocatable, c.Total-c.Reserved, name)
				if name != memplan.Ordinary {
					all += c.Total
					require.GreaterOrEqual(t, all, c.Total, "wrapped")
				}
			}
			ordinary, _ := machine.Capacity(id, memplan.Ordinary)
			require.LessOrEqual(t, all, ordinary.Total)
			require.Equal(t, ordinary.Total, ordinary.Reserved+ordinary.Allocatable+all, fmt.Sprint(id))
		}
	})
}

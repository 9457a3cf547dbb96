// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

// The makes of managers.
const (
	upstream = "upstream"
	ours     = "ours"
)

const (
	cpuFile    = "cpu_manager_state"
	memoryFile = "memory_manager_state"
)

// settings are the parts of a KubeletConfiguration that matter here.
type settings struct {
	machine machine.Machine
	// reserved are the reserved CPUs; memoryReserved is reserved on NUMA nodes, by
	// default 1Gi on the first.
	reserved       string
	memoryReserved map[int]string
	// policy and scope are the topology manager's.
	policy, scope           string
	cpuPolicy, memoryPolicy string
	cpuOptions              []string
	topologyOptions         map[string]string
	// gateOff turns PodLevelResourceManagers off.
	gateOff bool
	// devices has the NUMA node of each device of the resource "example.com/nic".
	devices []int
	period  time.Duration
}

func (n *node) reservations() ([]kubeletconfig.MemoryReservation, v1.ResourceList) {
	amounts := n.memoryReserved
	if amounts == nil {
		for _, each := range n.machine.Nodes {
			if each.Memory > 0 {
				amounts = map[int]string{each.ID: "1Gi"}
				break
			}
		}
	}
	var list []kubeletconfig.MemoryReservation
	total := resource.Quantity{}
	for id, amount := range amounts {
		q := resource.MustParse(amount)
		total.Add(q)
		list = append(list, kubeletconfig.MemoryReservation{NumaNode: int32(id), Limits: v1.ResourceList{v1.ResourceMemory: q}})
	}
	return list, v1.ResourceList{
		v1.ResourceMemory: total,
		v1.ResourceCPU:    *resource.NewQuantity(int64(n.reservedCPUs().Size()), resource.DecimalSI),
	}
}

func (n *node) reservedCPUs() cpuset.CPUSet {
	cpus, err := cpuset.Parse(n.reserved)
	must(err)
	return cpus
}

func (n *node) cpuManagerOptions() map[string]string {
	options := map[string]string{}
	for _, name := range n.cpuOptions {
		options[name] = "true"
	}
	return options
}

// block is memory that somebody has.
type block struct {
	resource string
	nodes    []int
	size     uint64
}

func (b block) String() string {
	return fmt.Sprintf("%s %s on %v", b.resource, resource.NewQuantity(int64(b.size), resource.BinarySI), b.nodes)
}

type cpuManager interface {
	AddContainer(klog.Logger, *v1.Pod, *v1.Container, string)
	GetExclusiveCPUs(pod, container string) cpuset.CPUSet
	GetPodCPUs(pod string) cpuset.CPUSet
	GetCPUAffinity(pod, container string) cpuset.CPUSet
	GetResourceIsolationLevel(*v1.Pod, *v1.Container) cmqos.ResourceIsolationLevel
}

type memoryManager interface {
	AddContainer(klog.Logger, *v1.Pod, *v1.Container, string)
	GetMemoryNUMANodes(klog.Logger, *v1.Pod, *v1.Container) sets.Set[int]
	GetResourceIsolationLevel(*v1.Pod, *v1.Container) cmqos.ResourceIsolationLevel
}

type topologyManager interface {
	lifecycle.PodAdmitHandler
	AddContainer(klog.Logger, *v1.Pod, *v1.Container, string)
	RemoveContainer(klog.Logger, string) error
}

// managers is the three managers of one start of the kubelet. Where the makes
// have types of their own, there are functions.
type managers struct {
	topology topologyManager
	cpu      cpuManager
	memory   memoryManager

	// nodesOf is the affinity that the topology manager tells for a container.
	nodesOf func(pod, container string) (nodes []int, anywhere bool)
	// sharedPool is the node shared pool.
	sharedPool func() cpuset.CPUSet
	// podMemory and containerMemory are what podresources reports.
	podMemory       func(pod string) []block
	containerMemory func(pod, container string) []block
	// reservedMemory is what the machine state says is taken, of all nodes.
	reservedMemory func(resource string) uint64
	// memoryHints are the memory manager's hints for the pod as a whole: the
	// nodes of preferred ones, nil if it has no preference.
	memoryHints func(*v1.Pod) []string
	// probe asks CPU and memory manager for the hints of a pod without requests,
	// at which they find out which pods are gone.
	probe func()
}

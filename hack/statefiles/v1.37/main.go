// SPDX-License-Identifier: Apache-2.0

// Statefiles drives the resource managers of Kubernetes v1.37.2; see package run.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/hack/statefiles/run"
)

func main() { run.Main("v1.37.2", true, start) }

type kubelet struct {
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
}

var logger = klog.Background()

func start(dir string, c *run.Cases, s run.Setting, pods []*v1.Pod) (run.Kubelet, error) {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"PodLevelResourceManagers": s.Gate}); err != nil {
		return nil, err
	}
	var machine cadvisorapi.MachineInfo
	if err := json.Unmarshal(c.Machine, &machine); err != nil {
		return nil, err
	}
	reservedCPUs, err := cpuset.Parse(c.ReservedCPUs)
	if err != nil {
		return nil, err
	}
	reservedMemory, err := resource.ParseQuantity(c.ReservedMemory)
	if err != nil {
		return nil, err
	}
	reservation := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(reservedCPUs.Size()), resource.DecimalSI),
		v1.ResourceMemory: reservedMemory,
	}
	onNode := []kubeletconfig.MemoryReservation{{NumaNode: 0, Limits: v1.ResourceList{v1.ResourceMemory: reservedMemory}}}

	var k kubelet
	if k.topology, err = topologymanager.NewManager(logger, machine.Topology, s.TopologyPolicy, s.Scope, nil); err != nil {
		return nil, err
	}
	if k.cpu, err = cpumanager.NewManager(logger, "static", nil, time.Hour, &machine, reservedCPUs, reservation, dir, k.topology); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(logger, k.cpu)
	if k.memory, err = memorymanager.NewManager(logger, "Static", &machine, reservation, onNode, dir, k.topology); err != nil {
		return nil, err
	}
	k.topology.AddHintProvider(logger, k.memory)
	active := func() []*v1.Pod { return pods }
	ctx := context.Background()
	if err := k.cpu.Start(ctx, active, node{}, node{}, node{}, containermap.NewContainerMap()); err != nil {
		return nil, fmt.Errorf("CPU manager: %w", err)
	}
	if err := k.memory.Start(ctx, active, node{}, node{}, node{}, containermap.NewContainerMap()); err != nil {
		return nil, fmt.Errorf("memory manager: %w", err)
	}
	return k, nil
}

// node is what the managers see of the rest of the kubelet: every source of pods
// has reported, and there is nothing to reconcile.
type node struct{}

func (node) AddSource(string)                            {}
func (node) AllReady() bool                              { return true }
func (node) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
func (node) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

func (k kubelet) Admit(pod *v1.Pod) string {
	result := k.topology.Admit(context.Background(), &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
	if result.Admit {
		return ""
	}
	return result.Reason + ": " + result.Message
}

func (k kubelet) StartContainer(pod *v1.Pod, c *v1.Container, id string) {
	k.cpu.AddContainer(logger, pod, c, id)
	k.memory.AddContainer(logger, pod, c, id)
	k.topology.AddContainer(logger, pod, c, id)
}

func (k kubelet) Describe(pod *v1.Pod, c *v1.Container) string {
	nodes := k.memory.GetMemoryNUMANodes(logger, pod, c).UnsortedList()
	slices.Sort(nodes)
	return fmt.Sprintf("cpus %s mems %v", k.cpu.GetCPUAffinity(string(pod.UID), c.Name), nodes)
}

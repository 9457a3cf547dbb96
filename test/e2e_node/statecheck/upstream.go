// SPDX-License-Identifier: Apache-2.0

package statecheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/utils/cpuset"
)

const (
	cpuFile    = "cpu_manager_state"
	memoryFile = "memory_manager_state"
)

// Reading is what upstream's managers have read.
type Reading struct {
	Pool     cpuset.CPUSet // the node shared pool
	CPUs     cpustate.ContainerCPUAssignments
	PodCPUs  cpustate.PodCPUAssignments
	Memory   memorystate.ContainerMemoryAssignments
	PodBlock memorystate.PodMemoryAssignments
}

// Mems is the NUMA nodes that a container's memory is from, as the kernel writes
// them.
func (r *Reading) Mems(uid, container string) string {
	nodes := cpuset.New()
	for _, b := range r.Memory[uid][container] {
		nodes = nodes.Union(cpuset.New(b.NUMAAffinity...))
	}
	return nodes.String()
}

// Pods is the UIDs of all pods that have something on record, sorted.
func (r *Reading) Pods() []string {
	all := map[string]bool{}
	for uid := range r.CPUs {
		all[uid] = true
	}
	for uid := range r.PodCPUs {
		all[uid] = true
	}
	for uid := range r.Memory {
		all[uid] = true
	}
	for uid := range r.PodBlock {
		all[uid] = true
	}
	var list []string
	for uid := range all {
		list = append(list, uid)
	}
	slices.Sort(list)
	return list
}

// Upstream has the managers of Kubernetes, with the gate
// PodLevelResourceManagers on, start on a copy of the files in the folder dir. An
// error is their refusal to start. The gates of the process are changed.
func Upstream(dir string, m Machine, f Files) (*Reading, error) {
	for name, content := range map[string][]byte{cpuFile: f.CPU, memoryFile: f.Memory} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	gates := map[string]bool{string(features.PodLevelResources): true, string(features.PodLevelResourceManagers): true}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return nil, err
	}
	var total int64
	var reserved []kubeletconfig.MemoryReservation
	for node, bytes := range m.ReservedMemory {
		total += bytes
		limits := v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}
		reserved = append(reserved, kubeletconfig.MemoryReservation{NumaNode: int32(node), Limits: limits})
	}
	allocatable := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(m.ReservedCPUs.Size()), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(total, resource.BinarySI),
	}
	logger := logr.Discard()
	topology, err := topologymanager.NewManager(logger, m.Info.Topology, "restricted", "pod", nil)
	if err != nil {
		return nil, err
	}
	cpu, err := cpumanager.NewManager(logger, "static", nil, time.Hour, m.Info, m.ReservedCPUs, allocatable, dir, topology)
	if err != nil {
		return nil, err
	}
	memory, err := memorymanager.NewManager(logger, "Static", m.Info, allocatable, reserved, dir, topology)
	if err != nil {
		return nil, err
	}
	// What goes on in the background ends with this.
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	defer cancel()
	if err := cpu.Start(ctx, noPods, still{}, still{}, still{}, containermap.NewContainerMap()); err != nil {
		return nil, fmt.Errorf("CPU manager: %w", err)
	}
	if err := memory.Start(ctx, noPods, still{}, still{}, still{}, containermap.NewContainerMap()); err != nil {
		return nil, fmt.Errorf("memory manager: %w", err)
	}
	return &Reading{
		Pool: cpu.State().GetDefaultCPUSet(), CPUs: cpu.State().GetCPUAssignments(), PodCPUs: cpu.State().GetPodCPUAssignments(),
		Memory: memory.State().GetMemoryAssignments(), PodBlock: memory.State().GetPodMemoryAssignments(),
	}, nil
}

func noPods() []*v1.Pod { return nil }

// still is a kubelet whose sources of pods have not reported, so that the managers
// take nothing for stale.
type still struct{}

func (still) AddSource(string)                            {}
func (still) AllReady() bool                              { return false }
func (still) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }
func (still) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

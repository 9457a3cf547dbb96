// SPDX-License-Identifier: Apache-2.0

package faults

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// startOurs starts our managers as the kubelet starts its own.
func startOurs(n *node) (m managers, err error) {
	info := n.machine.MachineInfo()
	memory, reservation := n.reservations()
	topology, err := topologymanager.NewManager(n.logger, info.Topology, n.policy, n.scope, n.topologyOptions)
	if err != nil {
		return m, err
	}
	affinity := func(pod, container string) (nodes []int, anywhere bool) {
		mask := topology.GetAffinity(n.logger, pod, container).NUMANodeAffinity
		if mask == nil {
			return nil, true
		}
		return mask.GetBits(), false
	}
	if n.devs != nil {
		topology.AddHintProvider(n.logger, deviceProvider[topologymanager.TopologyHint]{n.devs, ourHint, affinity})
	}
	cpu, err := cpumanager.NewManager(n.logger, n.cpuPolicy, n.cpuManagerOptions(), n.period, info, n.reservedCPUs(), reservation, n.dir, topology)
	if err != nil {
		return m, err
	}
	topology.AddHintProvider(n.logger, cpu)
	mem, err := memorymanager.NewManager(n.logger, n.memoryPolicy, info, reservation, memory, n.dir, topology)
	if err != nil {
		return m, err
	}
	topology.AddHintProvider(n.logger, mem)
	if err := cpu.Start(n.ctx, n.active, n, n, n.runtime, n.running()); err != nil {
		return m, err
	}
	if err := mem.Start(n.ctx, n.active, n, n, n.runtime, n.running()); err != nil {
		return m, err
	}
	blocks := func(list []state.Block) (all []block) {
		for _, b := range list {
			all = append(all, block{string(b.Type), b.NUMAAffinity, b.Size})
		}
		return all
	}
	return managers{
		topology: topology, cpu: cpu, memory: mem, nodesOf: affinity,
		sharedPool:      func() cpuset.CPUSet { return cpu.State().GetDefaultCPUSet() },
		podMemory:       func(pod string) []block { return blocks(mem.GetPodMemory(pod)) },
		containerMemory: func(pod, container string) []block { return blocks(mem.GetMemory(n.logger, pod, container)) },
		reservedMemory: func(resource string) (sum uint64) {
			for _, each := range mem.State().GetMachineState() {
				sum += each.MemoryMap[v1.ResourceName(resource)].Reserved
			}
			return sum
		},
		memoryHints: func(pod *v1.Pod) (nodes []string) {
			for _, h := range mem.GetPodTopologyHints(n.logger, pod, lifecycle.AddOperation)["memory"] {
				if h.Preferred {
					nodes = append(nodes, cpuset.New(h.NUMANodeAffinity.GetBits()...).String())
				}
			}
			return nodes
		},
		probe: func() {
			cpu.GetPodTopologyHints(n.logger, &v1.Pod{}, lifecycle.AddOperation)
			mem.GetPodTopologyHints(n.logger, &v1.Pod{}, lifecycle.AddOperation)
		},
	}, nil
}

func ourHint(nodes []int, preferred bool) topologymanager.TopologyHint {
	mask, err := bitmask.NewBitMask(nodes...)
	must(err)
	return topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: preferred}
}

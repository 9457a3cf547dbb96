// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// BlocksFromPlan writes the core's blocks in the kubelet's form. No blocks are
// an empty list, not nil: in the file the two differ.
func BlocksFromPlan(blocks []memplan.Block) []Block {
	list := make([]Block, 0, len(blocks))
	for _, b := range blocks {
		list = append(list, Block{NUMAAffinity: b.Nodes.List(), Type: v1.ResourceName(b.Resource), Size: b.Size})
	}
	return list
}

func blocksToPlan(blocks []Block) ([]memplan.Block, error) {
	list := make([]memplan.Block, 0, len(blocks))
	for _, b := range blocks {
		nodes, err := numa.NewSet(b.NUMAAffinity...)
		if err != nil {
			return nil, err
		}
		list = append(list, memplan.Block{Nodes: nodes, Resource: string(b.Type), Size: b.Size})
	}
	return list, nil
}

// machineState derives the machine state of the file.
func machineState(host memplan.Host) NUMANodeMap {
	nodes := NUMANodeMap{}
	for n := range host.Nodes() {
		node := &NUMANodeState{
			NumberOfAssignments: n.Assignments,
			MemoryMap:           make(map[v1.ResourceName]*MemoryTable, len(n.Resources)),
			Cells:               n.Group.List(),
		}
		for _, r := range n.Resources {
			node.MemoryMap[v1.ResourceName(r.Name)] = &MemoryTable{
				TotalMemSize: r.Total, SystemReserved: r.Capacity.Reserved, Allocatable: r.Allocatable,
				Reserved: r.Used, Free: r.Free,
			}
		}
		nodes[n.ID] = node
	}
	return nodes
}

func assignments(r memplan.Records) (ContainerMemoryAssignments, PodMemoryAssignments) {
	containers, pods := ContainerMemoryAssignments{}, PodMemoryAssignments{}
	for uid, pod := range r.All() {
		if pod.Whole() {
			pods[uid] = PodEntry{MemoryBlocks: BlocksFromPlan(pod.Pod)}
		}
		if len(pod.Containers) == 0 {
			continue
		}
		containers[uid] = make(map[string][]Block, len(pod.Containers))
		for name, blocks := range pod.Containers {
			containers[uid][name] = BlocksFromPlan(blocks)
		}
	}
	return containers, pods
}

// records reads what pods have. The error says what was passed over.
func records(containers ContainerMemoryAssignments, pods PodMemoryAssignments) (memplan.Records, error) {
	var errs []error
	all := make(map[string]memplan.PodRecord, len(containers))
	for uid, entries := range containers {
		record := memplan.PodRecord{Containers: make(map[string][]memplan.Block, len(entries))}
		for name, blocks := range entries {
			planned, err := blocksToPlan(blocks)
			if err != nil {
				errs = append(errs, fmt.Errorf("pod %q, container %q: %w", uid, name, err))
				continue
			}
			record.Containers[name] = planned
		}
		all[uid] = record
	}
	for uid, entry := range pods {
		planned, err := blocksToPlan(entry.MemoryBlocks)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %q: %w", uid, err))
			continue
		}
		record := all[uid]
		record.Pod = planned
		all[uid] = record
	}
	return memplan.NewRecords(all), errors.Join(errs...)
}

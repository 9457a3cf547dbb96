// SPDX-License-Identifier: Apache-2.0

package state

import (
	v1 "k8s.io/api/core/v1"
)

// MemoryTable is one resource of one NUMA node, in bytes.
type MemoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// NUMANodeState is one NUMA node: how many blocks lie on it, its resources,
// and the nodes that it forms a group with, itself included.
type NUMANodeState struct {
	NumberOfAssignments int                              `json:"numberOfAssignments"`
	MemoryMap           map[v1.ResourceName]*MemoryTable `json:"memoryMap"`
	Cells               []int                            `json:"cells"`
}

// NUMANodeMap is a machine, by NUMA node ID.
type NUMANodeMap map[int]*NUMANodeState

// Block is an amount of one resource, in bytes, on a set of NUMA nodes.
type Block struct {
	NUMAAffinity []int           `json:"numaAffinity"`
	Type         v1.ResourceName `json:"type"`
	Size         uint64          `json:"size"`
}

// ContainerMemoryAssignments holds blocks by pod UID and container name.
type ContainerMemoryAssignments map[string]map[string][]Block

// PodMemoryAssignments holds the blocks of pods allocated as a whole, by UID.
type PodMemoryAssignments map[string]PodEntry

// PodEntry is one pod that was allocated as a whole.
type PodEntry struct {
	MemoryBlocks []Block `json:"memoryBlocks,omitempty"`
}

// Reader reads what is published. All answers are copies; lists are nil for
// what is not recorded.
type Reader interface {
	// GetMachineState returns the state of each NUMA node, as derived from the
	// records.
	GetMachineState() NUMANodeMap
	// GetMemoryBlocks returns the blocks of a container.
	GetMemoryBlocks(podUID string, containerName string) []Block
	// GetPodMemoryBlocks returns the blocks of a pod allocated as a whole.
	GetPodMemoryBlocks(podUID string) []Block
	// GetMemoryAssignments returns the blocks of all containers.
	GetMemoryAssignments() ContainerMemoryAssignments
	// GetPodMemoryAssignments returns the blocks of all pods allocated as a
	// whole.
	GetPodMemoryAssignments() PodMemoryAssignments
}

// SPDX-License-Identifier: Apache-2.0

// Package state is the file format of the kubelet's memory manager, in its
// versions 1 to 3. The names of the package, of the types and of the fields, and
// the fields' order, are part of it: older checksums are taken over a dump of
// them.
package state

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/state/checksum"
)

// MemoryTable is one resource of one NUMA node, in bytes.
type MemoryTable struct {
	TotalMemSize   uint64 `json:"total"`
	SystemReserved uint64 `json:"systemReserved"`
	Allocatable    uint64 `json:"allocatable"`
	Reserved       uint64 `json:"reserved"`
	Free           uint64 `json:"free"`
}

// NUMANodeState is one NUMA node.
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

// PodEntry is one pod that was allocated as a whole.
type PodEntry struct {
	MemoryBlocks []Block `json:"memoryBlocks,omitempty"`
}

// PodMemoryAssignments holds the pods that were allocated as a whole.
type PodMemoryAssignments map[string]PodEntry

// Data is the content of version 3.
type Data struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	PodEntries   PodMemoryAssignments       `json:"podEntries,omitempty"`
}

// MemoryManagerCheckpointV1 is version 1, and what version 3 begins with for
// older kubelets.
type MemoryManagerCheckpointV1 struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// MemoryManagerCheckpointV2 is version 2.
type MemoryManagerCheckpointV2 struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	PodEntries   PodMemoryAssignments       `json:"podEntries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// V3 is the whole file in version 3.
type V3 struct {
	MemoryManagerCheckpointV1 `json:",inline"`
	Data                      string            `json:"data"`
	DataChecksum              checksum.Checksum `json:"dataChecksum"`
}

// Filled is the data with empty maps in the place of nil ones: that is how the
// sums are made.
func (d Data) Filled() Data {
	if d.MachineState == nil {
		d.MachineState = NUMANodeMap{}
	}
	if d.Entries == nil {
		d.Entries = ContainerMemoryAssignments{}
	}
	if d.PodEntries == nil {
		d.PodEntries = PodMemoryAssignments{}
	}
	return d
}

// Sum1 is the checksum of version 1, and of the inline part of version 3.
func (d Data) Sum1() checksum.Checksum {
	d = d.Filled()
	return checksum.OfVersion(&MemoryManagerCheckpointV1{PolicyName: d.PolicyName, MachineState: d.MachineState, Entries: d.Entries},
		"MemoryManagerCheckpointV1", "MemoryManagerCheckpoint")
}

// Sum2 is the checksum of version 2.
func (d Data) Sum2() checksum.Checksum {
	d = d.Filled()
	return checksum.OfVersion(&MemoryManagerCheckpointV2{PolicyName: d.PolicyName, MachineState: d.MachineState, Entries: d.Entries, PodEntries: d.PodEntries},
		"MemoryManagerCheckpointV2", "MemoryManagerCheckpoint")
}

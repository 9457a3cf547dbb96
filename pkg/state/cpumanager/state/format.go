// SPDX-License-Identifier: Apache-2.0

// Package state is the file format of the kubelet's CPU manager, in its versions
// 1 to 4. The names of the package, of the types and of the fields, and the
// fields' order, are part of it: older checksums are taken over a dump of them.
package state

import (
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/state/checksum"
)

// ContainerCPUs is what a container was admitted with.
type ContainerCPUs struct {
	Baseline string `json:"baseline"`
}

// PodEntryText is the CPUs of a pod with a budget as they are written.
type PodEntryText struct {
	CPUSet string `json:"cpuSet,omitempty"`
}

// Data is the content of version 4. CPU sets are in the kernel's list format.
type Data struct {
	PolicyName    string                              `json:"policyName"`
	DefaultCPUSet string                              `json:"defaultCpuSet"`
	Entries       map[string]map[string]string        `json:"entries,omitempty"`
	PodEntries    map[string]PodEntryText             `json:"podEntries,omitempty"`
	Baselines     map[string]map[string]ContainerCPUs `json:"baselines,omitempty"`
}

// Inline is what version 2 is, and what version 4 begins with for older
// kubelets.
type Inline struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// V3 is the whole file in version 3.
type V3 struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	PodEntries    map[string]PodEntryText      `json:"podEntries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// V4 is the whole file in version 4.
type V4 struct {
	Inline       `json:",inline"`
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

// V1 is the whole file in version 1: by container ID, without pods.
type V1 struct {
	PolicyName    string            `json:"policyName"`
	DefaultCPUSet string            `json:"defaultCpuSet"`
	Entries       map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum `json:"checksum"`
}

// Sum1 is the checksum of version 1.
func (f V1) Sum1() checksum.Checksum {
	entries := f.Entries
	if entries == nil {
		entries = map[string]string{}
	}
	return checksum.OfVersion(&CPUManagerCheckpointV1{PolicyName: f.PolicyName, DefaultCPUSet: f.DefaultCPUSet, Entries: entries},
		"CPUManagerCheckpointV1", "CPUManagerCheckpoint")
}

// The types of the dumps.

// CPUManagerCheckpointV1 is version 1.
type CPUManagerCheckpointV1 struct {
	PolicyName    string
	DefaultCPUSet string
	Entries       map[string]string
	Checksum      checksum.Checksum
}

// CPUManagerCheckpointV2 is version 2.
type CPUManagerCheckpointV2 struct {
	PolicyName    string
	DefaultCPUSet string
	Entries       map[string]map[string]string
	Checksum      checksum.Checksum
}

// PodEntry is a pod of version 3.
type PodEntry struct{ CPUSet cpuset.CPUSet }

// PodCPUAssignments are the pods of version 3.
type PodCPUAssignments map[string]PodEntry

// CPUManagerCheckpointV3 is version 3.
type CPUManagerCheckpointV3 struct {
	PolicyName    string
	DefaultCPUSet string
	Entries       map[string]map[string]string
	PodEntries    PodCPUAssignments
	Checksum      checksum.Checksum
}

// Sum2 is the checksum of version 2, and of the inline part of version 4.
func (d Data) Sum2() checksum.Checksum {
	return checksum.OfVersion(&CPUManagerCheckpointV2{PolicyName: d.PolicyName, DefaultCPUSet: d.DefaultCPUSet, Entries: orEmpty(d.Entries)},
		"CPUManagerCheckpointV2", "CPUManagerCheckpoint")
}

// Sum3 is the checksum of version 3, in which pods has the CPUs of PodEntries.
func (d Data) Sum3(pods map[string]cpuset.CPUSet) checksum.Checksum {
	entries := make(PodCPUAssignments, len(pods))
	for uid, cpus := range pods {
		entries[uid] = PodEntry{cpus}
	}
	return checksum.OfVersion(&CPUManagerCheckpointV3{PolicyName: d.PolicyName, DefaultCPUSet: d.DefaultCPUSet, Entries: orEmpty(d.Entries), PodEntries: entries},
		"CPUManagerCheckpointV3", "CPUManagerCheckpoint")
}

// orEmpty makes of nil an empty map: that is how the sums are made.
func orEmpty(m map[string]map[string]string) map[string]map[string]string {
	if m == nil {
		return map[string]map[string]string{}
	}
	return m
}

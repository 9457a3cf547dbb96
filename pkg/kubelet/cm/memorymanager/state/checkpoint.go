// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/errors"
	"k8s.io/utils/dump"
)

// MemoryManagerCheckpointData is what Data holds in the third version.
type MemoryManagerCheckpointData struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	PodEntries   PodMemoryAssignments       `json:"podEntries,omitempty"`
}

// MemoryManagerCheckpoint is the file in its third version. Data, guarded by
// DataChecksum, is what counts; the inlined first version is for older
// kubelets.
type MemoryManagerCheckpoint struct {
	MemoryManagerCheckpointV1 `json:",inline"`

	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`

	CheckpointData MemoryManagerCheckpointData `json:"-"`
}

// MemoryManagerCheckpointV3 is the version that is written.
type MemoryManagerCheckpointV3 = MemoryManagerCheckpoint

// MemoryManagerCheckpointV2 is what Kubernetes 1.36 wrote with pod-level
// resource managers on.
type MemoryManagerCheckpointV2 struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	PodEntries   PodMemoryAssignments       `json:"podEntries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// MemoryManagerCheckpointV1 is what every kubelet before 1.37 can read.
type MemoryManagerCheckpointV1 struct {
	PolicyName   string                     `json:"policyName"`
	MachineState NUMANodeMap                `json:"machineState"`
	Entries      ContainerMemoryAssignments `json:"entries,omitempty"`
	Checksum     checksum.Checksum          `json:"checksum"`
}

// checksumOf is the checksum that the first two versions carry: of a dump of
// the Go value, under the type name that it had before there were versions.
func checksumOf(checkpoint any, typeName string) checksum.Checksum {
	text := strings.Replace(dump.ForHash(checkpoint), typeName, "MemoryManagerCheckpoint", 1)
	hash := fnv.New32a()
	hash.Write([]byte(text))
	return checksum.Checksum(hash.Sum32())
}

func (mp *MemoryManagerCheckpointV1) sum() checksum.Checksum {
	bare := *mp
	bare.Checksum = 0
	return checksumOf(&bare, "MemoryManagerCheckpointV1")
}

func (mp *MemoryManagerCheckpointV2) sum() checksum.Checksum {
	bare := *mp
	bare.Checksum = 0
	return checksumOf(&bare, "MemoryManagerCheckpointV2")
}

func compare(stored, actual checksum.Checksum) error {
	if stored == actual {
		return nil
	}
	return &errors.CorruptCheckpointError{ActualCS: uint64(actual), ExpectedCS: uint64(stored)}
}

// MarshalCheckpoint sets the checksum and writes the file's text.
func (mp *MemoryManagerCheckpointV1) MarshalCheckpoint() ([]byte, error) {
	mp.Checksum = mp.sum()
	return json.Marshal(mp)
}

// MarshalCheckpoint sets the checksum and writes the file's text.
func (mp *MemoryManagerCheckpointV2) MarshalCheckpoint() ([]byte, error) {
	mp.Checksum = mp.sum()
	return json.Marshal(mp)
}

// MarshalCheckpoint writes the file's text from CheckpointData; all other
// fields are set from it, except for what the inlined version says if it has a
// machine state.
func (mp *MemoryManagerCheckpoint) MarshalCheckpoint() ([]byte, error) {
	d := mp.CheckpointData
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the memory manager's state: %w", err)
	}
	mp.Data = string(data)
	mp.DataChecksum = checksum.New(mp.Data)
	if mp.MachineState == nil {
		mp.MachineState, mp.Entries = d.MachineState, d.Entries
	}
	mp.PolicyName = d.PolicyName
	mp.Checksum = mp.sum()
	return json.Marshal(mp)
}

// UnmarshalCheckpoint reads the file's text.
func (mp *MemoryManagerCheckpointV1) UnmarshalCheckpoint(blob []byte) error {
	return json.Unmarshal(blob, mp)
}

// UnmarshalCheckpoint reads the file's text.
func (mp *MemoryManagerCheckpointV2) UnmarshalCheckpoint(blob []byte) error {
	return json.Unmarshal(blob, mp)
}

// UnmarshalCheckpoint reads the file's text, CheckpointData included.
func (mp *MemoryManagerCheckpoint) UnmarshalCheckpoint(blob []byte) error {
	err := json.Unmarshal(blob, mp)
	if err == nil {
		err = json.Unmarshal([]byte(mp.Data), &mp.CheckpointData)
	}
	if err != nil {
		return fmt.Errorf("failed to deserialize memory manager checkpoint data: %w", err)
	}
	return nil
}

// VerifyChecksum accepts 0, which very old kubelets wrote.
func (mp *MemoryManagerCheckpointV1) VerifyChecksum() error {
	if mp.Checksum == 0 {
		return nil
	}
	return compare(mp.Checksum, mp.sum())
}

// VerifyChecksum fails with a CorruptCheckpointError that tells both sums.
func (mp *MemoryManagerCheckpointV2) VerifyChecksum() error {
	return compare(mp.Checksum, mp.sum())
}

// VerifyChecksum checks Data alone; the inlined copy does not matter.
func (mp *MemoryManagerCheckpoint) VerifyChecksum() error {
	return mp.DataChecksum.Verify(mp.Data)
}

// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/errors"
	"k8s.io/utils/dump"
)

// The layouts below are the kubelet's file format. Names of types and fields
// and the order of fields are part of it, since its older checksums are taken
// over a dump of the Go values.

// ContainerCPUs is a container's baseline as it is written.
type ContainerCPUs struct {
	Baseline string `json:"baseline"`
}

// CPUManagerCheckpointData is the whole content, as version 4 writes it into
// its Data string. CPU sets are in the kernel's list format.
type CPUManagerCheckpointData struct {
	PolicyName    string                              `json:"policyName"`
	DefaultCPUSet string                              `json:"defaultCpuSet"`
	Entries       map[string]map[string]string        `json:"entries,omitempty"`
	PodEntries    PodCPUAssignments                   `json:"podEntries,omitempty"`
	Baselines     map[string]map[string]ContainerCPUs `json:"baselines,omitempty"`

	// byID is the entries of version 1, by container ID.
	byID map[string]string
}

// CPUManagerCheckpointV1 is the format of kubelets before 1.18, which knew
// containers by their IDs. The kubelet's own CPU manager has read it until 1.36.
type CPUManagerCheckpointV1 struct {
	PolicyName    string            `json:"policyName"`
	DefaultCPUSet string            `json:"defaultCpuSet"`
	Entries       map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum `json:"checksum"`
}

// CPUManagerCheckpointV2 is the format of kubelets before 1.36; it knows no
// pod budgets.
type CPUManagerCheckpointV2 struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// CPUManagerCheckpointV3 is the format of kubelet 1.36 with pod-level resource
// managers.
type CPUManagerCheckpointV3 struct {
	PolicyName    string                       `json:"policyName"`
	DefaultCPUSet string                       `json:"defaultCpuSet"`
	Entries       map[string]map[string]string `json:"entries,omitempty"`
	PodEntries    PodCPUAssignments            `json:"podEntries,omitempty"`
	Checksum      checksum.Checksum            `json:"checksum"`
}

// CPUManagerCheckpoint is version 4, the format of kubelet 1.37: the content as
// a string with a checksum of its own, beside what version 2 can hold of it for
// kubelets that know no better.
type CPUManagerCheckpoint struct {
	CPUManagerCheckpointV2 `json:",inline"`

	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`

	// CheckpointData is what Data says.
	CheckpointData CPUManagerCheckpointData `json:"-"`
}

var (
	_ checkpointmanager.Checkpoint = (*CPUManagerCheckpoint)(nil)
	_ checkpointmanager.Checkpoint = (*CPUManagerCheckpointV3)(nil)
	_ checkpointmanager.Checkpoint = (*CPUManagerCheckpointV2)(nil)
	_ checkpointmanager.Checkpoint = (*CPUManagerCheckpointV1)(nil)
)

// dumpChecksum is the checksum of the older formats: over the dump of the value
// under the name that its type had when the format was new.
func dumpChecksum(value any, typeName string) checksum.Checksum {
	hash := fnv.New32a()
	hash.Write([]byte(strings.Replace(dump.ForHash(value), typeName, "CPUManagerCheckpoint", 1)))
	return checksum.Checksum(hash.Sum32())
}

func verify(written, actual checksum.Checksum) error {
	if written != actual {
		return &errors.CorruptCheckpointError{ActualCS: uint64(actual), ExpectedCS: uint64(written)}
	}
	return nil
}

// sum is the checksum that belongs to the content. It leaves cp as it is.
func (cp *CPUManagerCheckpointV1) sum() checksum.Checksum {
	bare := *cp
	bare.Checksum = 0
	return dumpChecksum(&bare, "CPUManagerCheckpointV1")
}

// MarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpointV1) MarshalCheckpoint() ([]byte, error) {
	cp.Checksum = cp.sum()
	return json.Marshal(*cp)
}

// UnmarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpointV1) UnmarshalCheckpoint(data []byte) error {
	return json.Unmarshal(data, cp)
}

// VerifyChecksum implements checkpointmanager.Checkpoint. A checksum of 0 is
// one that was never taken.
func (cp *CPUManagerCheckpointV1) VerifyChecksum() error {
	if cp.Checksum == 0 {
		return nil
	}
	return verify(cp.Checksum, cp.sum())
}

// sum is the checksum that belongs to the content. It leaves cp as it is.
func (cp *CPUManagerCheckpointV2) sum() checksum.Checksum {
	bare := *cp
	bare.Checksum = 0
	return dumpChecksum(&bare, "CPUManagerCheckpointV2")
}

// MarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpointV2) MarshalCheckpoint() ([]byte, error) {
	cp.Checksum = cp.sum()
	return json.Marshal(*cp)
}

// UnmarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpointV2) UnmarshalCheckpoint(data []byte) error {
	return json.Unmarshal(data, cp)
}

// VerifyChecksum implements checkpointmanager.Checkpoint. A checksum of 0 is
// one that was never taken.
func (cp *CPUManagerCheckpointV2) VerifyChecksum() error {
	if cp.Checksum == 0 {
		return nil
	}
	return verify(cp.Checksum, cp.sum())
}

// sum is the checksum that belongs to the content. It leaves cp as it is.
func (cp *CPUManagerCheckpointV3) sum() checksum.Checksum {
	bare := *cp
	bare.Checksum = 0
	return dumpChecksum(&bare, "CPUManagerCheckpointV3")
}

// MarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpointV3) MarshalCheckpoint() ([]byte, error) {
	cp.Checksum = cp.sum()
	return json.Marshal(*cp)
}

// UnmarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpointV3) UnmarshalCheckpoint(data []byte) error {
	return json.Unmarshal(data, cp)
}

// VerifyChecksum implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpointV3) VerifyChecksum() error {
	return verify(cp.Checksum, cp.sum())
}

// MarshalCheckpoint implements checkpointmanager.Checkpoint. It takes
// everything from CheckpointData, except for what DefaultCPUSet says to older
// kubelets if that is set.
func (cp *CPUManagerCheckpoint) MarshalCheckpoint() ([]byte, error) {
	data, err := json.Marshal(cp.CheckpointData)
	if err != nil {
		return nil, fmt.Errorf("cannot write the CPU manager's state: %w", err)
	}
	cp.Data = string(data)
	cp.DataChecksum = checksum.New(cp.Data)
	cp.CPUManagerCheckpointV2 = CPUManagerCheckpointV2{
		PolicyName:    cp.CheckpointData.PolicyName,
		DefaultCPUSet: cmp.Or(cp.DefaultCPUSet, cp.CheckpointData.DefaultCPUSet),
		Entries:       cp.CheckpointData.Entries,
	}
	cp.Checksum = cp.CPUManagerCheckpointV2.sum()
	return json.Marshal(*cp)
}

// UnmarshalCheckpoint implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpoint) UnmarshalCheckpoint(data []byte) error {
	if err := json.Unmarshal(data, cp); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(cp.Data), &cp.CheckpointData); err != nil {
		return fmt.Errorf("cannot read the field %q: %w", "data", err)
	}
	return nil
}

// VerifyChecksum implements checkpointmanager.Checkpoint.
func (cp *CPUManagerCheckpoint) VerifyChecksum() error {
	return cp.DataChecksum.Verify(cp.Data)
}

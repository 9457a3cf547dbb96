// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
)

// decode reads the file in whichever version it is. The error says what is wrong
// with it; the data is nil if nothing can be read all the same, and otherwise
// from the part that is named: of a file that is not whole JSON, its whole
// fields; of one in version 4 whose data is damaged, what it has for older
// kubelets, which lacks the pods as such. Nothing is read that its checksum does
// not bear out.
func decode(raw []byte) (data *CPUManagerCheckpointData, part string, err error) {
	data, part, err = decodeWhole(raw)
	if err == nil {
		return data, part, statefile.CheckKnown(raw, &allFields{}, "data", &allData{})
	}
	whole := statefile.Fields(raw)
	if whole == nil {
		return nil, "", err
	}
	// No checksum is one of very old files; in what is left of a file it may just
	// be missing. Data can be whole beside a part that cannot be read.
	for _, left := range [][]byte{whole, statefile.Only(whole, "data", "dataChecksum")} {
		if data, part, errLeft := decodeWhole(left); errLeft == nil && statefile.HasSum(left, "checksum", "dataChecksum") {
			return data, part, err
		}
	}
	v2 := CPUManagerCheckpointV2{Entries: map[string]map[string]string{}}
	if errV2 := read(whole, &v2); errV2 == nil && v2.Checksum != 0 {
		return v2.data(), "the part for older kubelets", err
	}
	return nil, "", err
}

// allFields is the fields of all versions.
type allFields struct {
	CPUManagerCheckpointV3
	Entries      json.RawMessage         `json:"entries"`
	PodEntries   map[string]podEntryText `json:"podEntries"`
	Data         string                  `json:"data"`
	DataChecksum uint64                  `json:"dataChecksum"`
}

// allData is the fields of Data. PodEntry reads itself, and would pass over fields
// that it does not know.
type allData struct {
	CPUManagerCheckpointData
	PodEntries map[string]podEntryText `json:"podEntries"`
}

// decodeWhole reads the newest format that the file is in. A file that has the
// fields of version 4 is not read as an older one.
func decodeWhole(raw []byte) (*CPUManagerCheckpointData, string, error) {
	var fields struct {
		Data         *string          `json:"data"`
		DataChecksum *json.RawMessage `json:"dataChecksum"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, "", fmt.Errorf("the file is not valid JSON: %w", err)
	}
	data, part, err := decodeVersion(raw, fields.Data != nil || fields.DataChecksum != nil)
	if err == nil && data.PolicyName == "" {
		err = errors.New("the file names no policy")
	}
	return data, part, err
}

func decodeVersion(raw []byte, isV4 bool) (*CPUManagerCheckpointData, string, error) {
	if isV4 {
		var v4 CPUManagerCheckpoint
		if err := read(raw, &v4); err != nil {
			return nil, "", fmt.Errorf("could not load v4 checkpoint: %w", err)
		}
		return &v4.CheckpointData, "version 4", nil
	}
	// Absent maps must be empty, not nil: that is how the sums were made.
	v3 := CPUManagerCheckpointV3{Entries: map[string]map[string]string{}, PodEntries: PodCPUAssignments{}}
	if err := read(raw, &v3); err == nil {
		return &CPUManagerCheckpointData{
			PolicyName: v3.PolicyName, DefaultCPUSet: v3.DefaultCPUSet, Entries: v3.Entries, PodEntries: v3.PodEntries,
		}, "version 3", nil
	}
	v2 := CPUManagerCheckpointV2{Entries: map[string]map[string]string{}}
	err := read(raw, &v2)
	if err == nil {
		return v2.data(), "version 2", nil
	}
	v1 := CPUManagerCheckpointV1{Entries: map[string]string{}}
	if errV1 := read(raw, &v1); errV1 == nil {
		return &CPUManagerCheckpointData{PolicyName: v1.PolicyName, DefaultCPUSet: v1.DefaultCPUSet, byID: v1.Entries}, "version 1", nil
	}
	return nil, "", err
}

func (cp *CPUManagerCheckpointV2) data() *CPUManagerCheckpointData {
	return &CPUManagerCheckpointData{PolicyName: cp.PolicyName, DefaultCPUSet: cp.DefaultCPUSet, Entries: cp.Entries}
}

// read unmarshals and verifies. What stands behind the object has made it fail
// before.
func read(raw []byte, checkpoint checkpointmanager.Checkpoint) error {
	if err := checkpoint.UnmarshalCheckpoint(raw); err != nil {
		return err
	}
	return checkpoint.VerifyChecksum()
}

// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
)

// decode reads the file's text in whichever version it is. The error says what
// is wrong with it; the data is nil if nothing can be read all the same, and
// otherwise from the part that is named: of a file that is not whole JSON, its
// whole fields; of one of the third version whose Data is damaged, what it has for
// older kubelets, which lacks the pods as such. Nothing is read that its checksum
// does not bear out. Text is Data as it stands in a file that is whole in both
// parts.
func decode(blob []byte) (data *MemoryManagerCheckpointData, text, part string, err error) {
	data, text, part, err = decodeWhole(blob)
	if err == nil {
		err = statefile.CheckKnown(blob, &allFields{}, "data", &MemoryManagerCheckpointData{})
		return data, text, part, err
	}
	whole := statefile.Fields(blob)
	if whole == nil {
		return nil, "", "", err
	}
	// No checksum is one of very old files; in what is left of a file it may just
	// be missing. Data can be whole beside a part that cannot be read.
	for _, left := range [][]byte{whole, statefile.Only(whole, "data", "dataChecksum")} {
		if data, _, part, errLeft := decodeWhole(left); errLeft == nil && statefile.HasSum(left, "checksum", "dataChecksum") {
			return data, "", part, err
		}
	}
	if v1, errV1 := readV1(whole); errV1 == nil && v1.Checksum != 0 && v1.PolicyName != "" {
		return v1.data(), "", "the part for older kubelets", err
	}
	return nil, "", "", err
}

// allFields is the fields of all versions.
type allFields struct {
	MemoryManagerCheckpointV2
	Data         string            `json:"data"`
	DataChecksum checksum.Checksum `json:"dataChecksum"`
}

// decodeWhole reads the newest version that the file is in. A file that has Data
// or its checksum is of the third version and is not read as an older one.
func decodeWhole(blob []byte) (*MemoryManagerCheckpointData, string, string, error) {
	data, text, part, err := decodeVersion(blob)
	if err == nil && data.PolicyName == "" {
		err = errors.New("[memorymanager] the file names no policy")
	}
	return data, text, part, err
}

func decodeVersion(blob []byte) (*MemoryManagerCheckpointData, string, string, error) {
	var head struct {
		Data         *json.RawMessage `json:"data"`
		DataChecksum *json.RawMessage `json:"dataChecksum"`
	}
	if err := json.Unmarshal(blob, &head); err != nil {
		return nil, "", "", fmt.Errorf("the file is not valid JSON: %w", err)
	}
	if head.Data != nil || head.DataChecksum != nil {
		var v3 MemoryManagerCheckpoint
		err := v3.UnmarshalCheckpoint(blob)
		if err == nil {
			err = v3.VerifyChecksum()
		}
		if err != nil {
			return nil, "", "", fmt.Errorf("could not load v3 checkpoint: %w", err)
		}
		if v3.MemoryManagerCheckpointV1.VerifyChecksum() != nil {
			return &v3.CheckpointData, "", "version 3", nil
		}
		return &v3.CheckpointData, v3.Data, "version 3", nil
	}
	// Absent maps must be empty, not nil: that is how the sums were made.
	v2 := MemoryManagerCheckpointV2{MachineState: NUMANodeMap{}, Entries: ContainerMemoryAssignments{}, PodEntries: PodMemoryAssignments{}}
	if err := v2.UnmarshalCheckpoint(blob); err == nil && v2.VerifyChecksum() == nil {
		return &MemoryManagerCheckpointData{v2.PolicyName, v2.MachineState, v2.Entries, v2.PodEntries}, "", "version 2", nil
	}
	v1, err := readV1(blob)
	if err != nil {
		return nil, "", "", err
	}
	return v1.data(), "", "version 1", nil
}

func readV1(blob []byte) (MemoryManagerCheckpointV1, error) {
	v1 := MemoryManagerCheckpointV1{MachineState: NUMANodeMap{}, Entries: ContainerMemoryAssignments{}}
	err := v1.UnmarshalCheckpoint(blob)
	if err == nil {
		err = v1.VerifyChecksum()
	}
	return v1, err
}

func (mp *MemoryManagerCheckpointV1) data() *MemoryManagerCheckpointData {
	return &MemoryManagerCheckpointData{mp.PolicyName, mp.MachineState, mp.Entries, nil}
}

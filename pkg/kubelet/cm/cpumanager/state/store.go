// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
)

// Store is the CPU manager's state file and the content that was last written
// to it. Readers need no lock; Replace is for one caller at a time.
type Store struct {
	file       statefile.File
	policyName string
	published  atomic.Pointer[Content]
	// written is the file's content, as far as that is sure.
	written []byte
	unsure  bool
}

// Open reads the state file called name in dir, or begins an empty state when
// there is none. It writes nothing. A damaged file is refused. The content of
// another policy's file is kept, whatever it means for the policy of today.
func Open(logger klog.Logger, dir, name, policyName string) (*Store, error) {
	s := &Store{file: statefile.File{Dir: dir, Name: name}, policyName: policyName}
	content, err := s.load(logger)
	if err != nil {
		return nil, fmt.Errorf("could not restore state from checkpoint: %w, please drain this node and delete the CPU manager checkpoint file %q before restarting Kubelet",
			err, s.file.Path())
	}
	s.published.Store(content)
	return s, nil
}

// Content is what was last published.
func (s *Store) Content() *Content { return s.published.Load() }

// Replace writes the content durably and publishes it then. On an error what
// readers see has not changed; see Unsure for the file. A content that the file
// has already is not written again.
func (s *Store) Replace(content *Content) error {
	if err := s.Write(content); err != nil {
		return err
	}
	s.published.Store(content)
	return nil
}

// Write is Replace for a content that readers are not to see.
func (s *Store) Write(content *Content) error {
	data, err := s.encode(content)
	if err != nil {
		return err
	}
	if s.unsure || !bytes.Equal(data, s.written) {
		if err := s.file.Replace(data); err != nil {
			s.unsure = s.unsure || errors.Is(err, statefile.ErrUnsure)
			return err
		}
		s.unsure = false
		s.written = data
	}
	return nil
}

// Unsure reports whether the file may have the content of a Replace that failed.
// It is cleared by one that succeeds.
func (s *Store) Unsure() bool { return s.unsure }

// Publish shows readers a content that is not written. It is for content that
// follows from what the file has.
func (s *Store) Publish(content *Content) { s.published.Store(content) }

func (s *Store) encode(content *Content) ([]byte, error) {
	checkpoint := CPUManagerCheckpoint{CheckpointData: CPUManagerCheckpointData{
		PolicyName:    s.policyName,
		DefaultCPUSet: content.Default.String(),
		Entries:       make(map[string]map[string]string, len(content.Assignments)),
		PodEntries:    content.Pods,
	}}
	data := &checkpoint.CheckpointData
	for pod, containers := range content.Assignments {
		data.Entries[pod] = make(map[string]string, len(containers))
		for name, cpus := range containers {
			data.Entries[pod][name] = cpus.String()
		}
	}
	if content.HasBaselines {
		data.Baselines = make(map[string]map[string]ContainerCPUs, len(data.Entries))
		for pod, containers := range data.Entries {
			data.Baselines[pod] = make(map[string]ContainerCPUs, len(containers))
			for name, cpus := range containers {
				data.Baselines[pod][name] = ContainerCPUs{Baseline: cpus}
			}
		}
	}
	// Older kubelets insist that the pool and the containers have all CPUs. What
	// only the pod has is for them in the pool.
	checkpoint.DefaultCPUSet = content.Default.Union(content.leftover()).String()
	return checkpoint.MarshalCheckpoint()
}

// leftover is the CPUs of pods that none of their containers has.
func (c *Content) leftover() cpuset.CPUSet {
	left := cpuset.New()
	for pod, entry := range c.Pods {
		cpus := entry.CPUSet
		for _, held := range c.Assignments[pod] {
			cpus = cpus.Difference(held)
		}
		left = left.Union(cpus)
	}
	return left
}

func (s *Store) load(logger klog.Logger) (*Content, error) {
	empty := &Content{Assignments: ContainerCPUAssignments{}, Pods: PodCPUAssignments{}}
	raw, err := s.file.Read()
	if err != nil || raw == nil {
		return empty, err
	}
	data, version, err := decode(raw)
	if err != nil {
		return nil, err
	}
	content, err := data.content()
	if err != nil {
		return nil, err
	}
	if data.PolicyName == "" {
		return nil, fmt.Errorf("the file names no policy")
	}
	if data.PolicyName != s.policyName {
		logger.Info("Taking over the CPU manager's state of another policy",
			"policy", s.policyName, "statePolicy", data.PolicyName, "file", s.file.Path(), "pods", len(content.Assignments))
		return content, nil
	}
	s.written = raw
	logger.V(2).Info("Restored the CPU manager's state", "file", s.file.Path(), "version", version, "pods", len(content.Assignments))
	return content, nil
}

// decode reads the newest format that the file is in. A file that has the
// fields of version 4 is not read as an older one when these are damaged: what
// an older reader sees in it is only a part.
func decode(raw []byte) (*CPUManagerCheckpointData, int, error) {
	var fields struct {
		Data         *string          `json:"data"`
		DataChecksum *json.RawMessage `json:"dataChecksum"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, 0, fmt.Errorf("the file is not valid JSON: %w", err)
	}
	if fields.Data != nil || fields.DataChecksum != nil {
		var v4 CPUManagerCheckpoint
		if err := read(raw, &v4); err != nil {
			return nil, 0, fmt.Errorf("could not load v4 checkpoint: %w", err)
		}
		return &v4.CheckpointData, 4, nil
	}
	// Absent maps must be empty, not nil: that is how the sums were made.
	v3 := CPUManagerCheckpointV3{Entries: map[string]map[string]string{}, PodEntries: PodCPUAssignments{}}
	if err := read(raw, &v3); err == nil {
		return &CPUManagerCheckpointData{
			PolicyName: v3.PolicyName, DefaultCPUSet: v3.DefaultCPUSet, Entries: v3.Entries, PodEntries: v3.PodEntries,
		}, 3, nil
	}
	v2 := CPUManagerCheckpointV2{Entries: map[string]map[string]string{}}
	if err := read(raw, &v2); err != nil {
		return nil, 0, err
	}
	return &CPUManagerCheckpointData{
		PolicyName: v2.PolicyName, DefaultCPUSet: v2.DefaultCPUSet, Entries: v2.Entries,
	}, 2, nil
}

func read(raw []byte, checkpoint checkpointmanager.Checkpoint) error {
	if err := checkpoint.UnmarshalCheckpoint(raw); err != nil {
		return err
	}
	return checkpoint.VerifyChecksum()
}

// content parses the CPU sets.
func (d *CPUManagerCheckpointData) content() (*Content, error) {
	content := &Content{
		Assignments:  make(ContainerCPUAssignments, len(d.Entries)),
		Pods:         d.PodEntries.Clone(),
		HasBaselines: len(d.Baselines) > 0,
	}
	var err error
	if content.Default, err = parse(d.DefaultCPUSet); err != nil {
		return nil, fmt.Errorf("could not parse default CPU set %q: %w", d.DefaultCPUSet, err)
	}
	for pod, containers := range d.Entries {
		content.Assignments[pod] = make(map[string]cpuset.CPUSet, len(containers))
		for name, text := range containers {
			if content.Assignments[pod][name], err = parse(text); err != nil {
				return nil, fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", text, name, pod, err)
			}
		}
	}
	return content, nil
}

// parse is cpuset.Parse for a text that may be wrong: a range of many millions
// would keep that busy for minutes.
func parse(text string) (cpuset.CPUSet, error) {
	for _, number := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '-' }) {
		if id, err := strconv.Atoi(number); err == nil && id >= cpuplan.MaxCPUs {
			return cpuset.CPUSet{}, fmt.Errorf("CPU ID %d is outside the supported range 0-%d", id, cpuplan.MaxCPUs-1)
		}
	}
	return cpuset.Parse(text)
}

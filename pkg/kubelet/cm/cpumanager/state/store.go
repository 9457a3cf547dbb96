// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/klog/v2"
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
	// written is the file's content, unless that is unsure.
	written []byte
	unsure  bool
	// unkept is set while there is a damaged file that could not be kept under
	// another name. It is not replaced before.
	unkept bool
	// missing is set if there was no file.
	missing bool
}

// ContainerOf tells the pod and the name of a container by its ID; its error is
// that the container is not known. Files of the first version need it.
type ContainerOf func(id string) (podUID, name string, err error)

// Open reads the state file called name in dir, or begins an empty state when
// there is none. It writes nothing. The content of another policy's file is
// taken, whatever it means for the policy of today.
//
// The store can be used whatever Open finds. The error is nil or a
// *statefile.Damage: then the content is what could be read, and the damaged file
// is kept under another name.
func Open(logger klog.Logger, dir, name, policyName string, containerOf ContainerOf) (*Store, error) {
	s := &Store{file: statefile.File{Dir: dir, Name: name}, policyName: policyName}
	content, damage := s.load(logger, containerOf)
	s.published.Store(content)
	if damage == nil {
		return s, nil
	}
	s.unkept = damage.KeepErr != nil
	return s, damage
}

// Missing reports whether there was no file.
func (s *Store) Missing() bool { return s.missing }

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
	if s.unkept {
		if _, err := s.file.Keep(); err != nil {
			return err
		}
		s.unkept = false
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

// Unsure reports whether the file may have another content than readers see: that
// of a Replace that failed, or of before PublishUnwritten. It is cleared by a
// Replace that succeeds.
func (s *Store) Unsure() bool { return s.unsure }

// Publish shows readers a content that is not written. It is for content that
// follows from what the file has.
func (s *Store) Publish(content *Content) { s.published.Store(content) }

// PublishUnwritten shows readers a content that could not be written and has to
// be, by the next Replace.
func (s *Store) PublishUnwritten(content *Content) {
	s.published.Store(content)
	s.unsure = true
}

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

func (s *Store) load(logger klog.Logger, containerOf ContainerOf) (*Content, *statefile.Damage) {
	empty := &Content{Assignments: ContainerCPUAssignments{}, Pods: PodCPUAssignments{}}
	raw, err := s.file.Read()
	if err != nil {
		return empty, s.file.NewDamage(err, "")
	}
	if raw == nil {
		s.missing = true
		return empty, nil
	}
	data, part, err := decode(raw)
	if data == nil {
		return empty, s.file.NewDamage(err, "")
	}
	content, unread := data.content(containerOf)
	if err = errors.Join(err, unread); err != nil {
		return content, s.file.NewDamage(err, part)
	}
	if data.PolicyName != s.policyName {
		logger.Info("Taking over the CPU manager's state of another policy",
			"policy", s.policyName, "statePolicy", data.PolicyName, "file", s.file.Path(), "pods", len(content.Assignments))
		return content, nil
	}
	s.written = raw
	logger.V(2).Info("Restored the CPU manager's state", "file", s.file.Path(), "read", part, "pods", len(content.Assignments))
	return content, nil
}

// content parses the CPU sets. The error says what was passed over.
func (d *CPUManagerCheckpointData) content(containerOf ContainerOf) (*Content, error) {
	content := &Content{
		Assignments:  make(ContainerCPUAssignments, len(d.Entries)),
		Pods:         d.PodEntries.Clone(),
		HasBaselines: len(d.Baselines) > 0,
	}
	var errs []error
	var err error
	if content.Default, err = parse(d.DefaultCPUSet); err != nil {
		errs = append(errs, fmt.Errorf("could not parse default CPU set %q: %w", d.DefaultCPUSet, err))
	}
	add := func(pod, name, text string) {
		cpus, err := parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("could not parse cpuset %q for container %q in pod %q: %w", text, name, pod, err))
			return
		}
		if content.Assignments[pod] == nil {
			content.Assignments[pod] = map[string]cpuset.CPUSet{}
		}
		content.Assignments[pod][name] = cpus
	}
	for pod, containers := range d.Entries {
		for name, text := range containers {
			add(pod, name, text)
		}
	}
	for id, text := range d.byID {
		if containerOf == nil {
			break
		}
		// One that is not known does not run.
		if pod, name, err := containerOf(id); err == nil {
			add(pod, name, text)
		}
	}
	return content, errors.Join(errs...)
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

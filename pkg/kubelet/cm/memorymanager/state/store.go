// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
)

// Store holds the records and keeps them in a file. It is safe for concurrent
// use.
type Store struct {
	file   statefile.File
	policy string

	// host is what is published. Readers do not wait for the disk.
	host atomic.Pointer[memplan.Host]

	// writing guards data, which is what Data of the file says, as far as known.
	// The rest of the file follows from it, and from what pods ask for.
	writing sync.Mutex
	data    string
	// unkept is set while there is a damaged file that could not be kept under
	// another name. It is not replaced before.
	unkept bool
	// unsure is set while the file may have other records than those that are
	// published.
	unsure bool
	// missing is set if there was no file.
	missing bool
}

var _ Reader = (*Store)(nil)

// New returns a store without records and without a file, for the time before
// the state is loaded; its Replace fails.
func New(machine memplan.Machine) *Store {
	s := &Store{}
	s.publish(memplan.NewHost(machine, memplan.Records{}))
	return s
}

func (s *Store) publish(host memplan.Host) { s.host.Store(&host) }

// Open loads the file stateDir/name, in any of its versions, or begins without
// records when there is none. A file that is whole is rewritten if its Data differs
// from what would be written now; see Update.
//
// A file of another policy is taken over with its records: pods run on what the
// other policy gave them. Records on NUMA nodes or resources that the machine
// lacks are dropped. The policy that gives nothing is opened with the zero
// Machine, of which nothing can be told; it keeps all records.
//
// The store can be used whatever Open finds. The error is nil or a
// *statefile.Damage: then the records are what could be read, the damaged file is
// kept under another name, and nothing is written yet.
func Open(logger klog.Logger, stateDir, name, policyName string, machine memplan.Machine) (*Store, error) {
	s := &Store{file: statefile.File{Dir: stateDir, Name: name}, policy: policyName}
	loaded, damage := s.load(logger, machine)
	s.publish(memplan.NewHost(machine, loaded))
	if damage == nil {
		s.Update(logger, loaded)
		return s, nil
	}
	s.unkept = damage.KeepErr != nil
	return s, damage
}

// Missing reports whether there was no file.
func (s *Store) Missing() bool { return s.missing }

// Unsure reports whether the file may have other records than those that are
// published, since it could not be written. A Replace clears it that succeeds.
func (s *Store) Unsure() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.unsure
}

// Update writes the file if it differs from what would be written now. That this
// can fail is only logged: the records are loaded, and what runs must not suffer
// from a disk that is full.
func (s *Store) Update(logger klog.Logger, loaded memplan.Records) {
	if err := s.Replace(loaded); err != nil {
		logger.Error(err, "The memory manager's state is loaded, but cannot be written", "file", s.file.Path())
		s.writing.Lock()
		defer s.writing.Unlock()
		s.unsure = true
		s.publish(memplan.NewHost(s.Host().Machine(), loaded))
	}
}

func (s *Store) load(logger klog.Logger, machine memplan.Machine) (memplan.Records, *statefile.Damage) {
	text, err := s.file.Read()
	if err != nil {
		return memplan.Records{}, s.file.NewDamage(err, "")
	}
	if text == nil {
		s.missing = true
		return memplan.Records{}, nil
	}
	data, written, part, err := decode(text)
	if data == nil {
		return memplan.Records{}, s.file.NewDamage(err, "")
	}
	loaded, unread := records(data.Entries, data.PodEntries)
	loaded = s.check(logger, machine, data, loaded)
	if err = errors.Join(err, unread); err != nil {
		return loaded, s.file.NewDamage(err, part)
	}
	s.data = written
	logger.V(2).Info("Loaded the memory manager's state", "file", s.file.Path(), "read", part, "pods", loaded.Len())
	return loaded, nil
}

// check holds the records against themselves and the machine, and returns those
// that can be.
func (s *Store) check(logger klog.Logger, machine memplan.Machine, data *MemoryManagerCheckpointData, loaded memplan.Records) memplan.Records {
	if data.PolicyName != s.policy {
		logger.Info("Taking over the memory manager's state of another policy", "file", s.file.Path(), "was", data.PolicyName, "now", s.policy, "pods", loaded.Len())
	}
	for uid, pod := range loaded.All() {
		if repaired := pod.Repaired(); !repaired.Equal(pod) {
			logger.Error(nil, "The state file has a pod with containers outside of its own NUMA nodes; it is taken to be where they are",
				"podUID", uid, "podNodes", pod.Nodes(), "containersNodes", repaired.Nodes())
			loaded = loaded.With(uid, repaired)
		}
	}
	if machine.Nodes().IsEmpty() {
		return loaded
	}
	logChanges(logger, data.MachineState, machineState(memplan.NewHost(machine, memplan.Records{})))
	for uid, pod := range loaded.All() {
		if left := machine.Known(pod); !left.Equal(pod) {
			logger.Error(nil, "A pod has less memory than it was given: the machine has no pages of some size any more", "podUID", uid,
				"recorded", pod.Pod, "containers", pod.Containers)
			loaded, pod = loaded.With(uid, left), left
		}
		// Nothing can be bound to a node that is gone. The pod is allocated anew
		// when it is admitted again.
		if err := machine.Check(uid, pod); err != nil {
			logger.Error(err, "Dropping the memory of a pod: the machine has some of it no more", "podUID", uid)
			loaded = loaded.With(uid, memplan.PodRecord{})
		}
	}
	return loaded
}

// Replace makes next the records: in the file, by one durable replacement, and
// then for readers. When the file cannot be written nothing changes. Records
// that make no difference to the file are not written.
func (s *Store) Replace(next memplan.Records) error {
	if s.file == (statefile.File{}) {
		return errors.New("[memorymanager] the state is not loaded yet")
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	host := memplan.NewHost(s.Host().Machine(), next)
	checkpoint := MemoryManagerCheckpoint{CheckpointData: MemoryManagerCheckpointData{PolicyName: s.policy, MachineState: machineState(host)}}
	checkpoint.CheckpointData.Entries, checkpoint.CheckpointData.PodEntries = assignments(next)
	// Older kubelets insist that the containers' blocks add up.
	split := next.PerContainer()
	checkpoint.MachineState = machineState(memplan.NewHost(host.Machine(), split))
	checkpoint.Entries, _ = assignments(split)
	text, err := checkpoint.MarshalCheckpoint()
	if err != nil {
		return err
	}
	if s.unkept {
		if _, err := s.file.Keep(); err != nil {
			return fmt.Errorf("[memorymanager] the state could not be saved: %w", err)
		}
		s.unkept = false
	}
	if checkpoint.Data != s.data {
		if err := s.file.Replace(text); err != nil {
			if errors.Is(err, statefile.ErrUnsure) {
				// The next one, which may be that of the old records, must be
				// written.
				s.data, s.unsure = "", true
			}
			return fmt.Errorf("[memorymanager] the state could not be saved: %w", err)
		}
	}
	s.data, s.unsure = checkpoint.Data, false
	s.publish(host)
	return nil
}

// Host returns the machine with the published records.
func (s *Store) Host() memplan.Host { return *s.host.Load() }

// GetMachineState implements Reader.
func (s *Store) GetMachineState() NUMANodeMap { return machineState(s.Host()) }

// GetMemoryBlocks implements Reader.
func (s *Store) GetMemoryBlocks(podUID string, containerName string) []Block {
	blocks, ok := s.Host().Records().Pod(podUID).Containers[containerName]
	if !ok {
		return nil
	}
	return BlocksFromPlan(blocks)
}

// GetPodMemoryBlocks implements Reader.
func (s *Store) GetPodMemoryBlocks(podUID string) []Block {
	pod := s.Host().Records().Pod(podUID)
	if !pod.Whole() {
		return nil
	}
	return BlocksFromPlan(pod.Pod)
}

// GetMemoryAssignments implements Reader.
func (s *Store) GetMemoryAssignments() ContainerMemoryAssignments {
	containers, _ := assignments(s.Host().Records())
	return containers
}

// GetPodMemoryAssignments implements Reader.
func (s *Store) GetPodMemoryAssignments() PodMemoryAssignments {
	_, pods := assignments(s.Host().Records())
	return pods
}

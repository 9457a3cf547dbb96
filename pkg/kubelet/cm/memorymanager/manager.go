// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"
	"sync"
	"sync/atomic"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/status"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

const memoryManagerStateFileName = "memory_manager_state"

type manager struct {
	policy    policy
	directory string
	affinity  topologymanager.Store
	// remedy is what helps a pod that runs without what it asks for. Start sets it.
	remedy string

	// store is replaced once, by Start. It is read without mu, so that nobody who
	// only reads waits for an admission.
	store atomic.Pointer[state.Store]

	// mu guards everything below, and is held over each change of the store.
	mu           sync.Mutex
	activePods   ActivePodsFunc
	sourcesReady config.SourcesReady
	// containers are the containers by ID, for RemoveContainer.
	containers map[string]containerRef
	// runningBefore are the pods that had containers in the runtime when the
	// kubelet started, for as long as they are active.
	runningBefore map[string]bool
	// seen are the NUMA nodes that containers are bound to, by pod UID and name,
	// if what is recorded of them may be lost.
	seen      map[string]map[string]numa.Set
	admission *admission
}

type containerRef struct{ podUID, name string }

var (
	_ Manager                              = (*manager)(nil)
	_ topologymanager.HintProvider         = (*manager)(nil)
	_ topologymanager.AdmissionParticipant = (*manager)(nil)
	_ topologymanager.AdmissionSettler     = (*manager)(nil)
	_ topologymanager.AllocationHolder     = (*manager)(nil)
	_ topologymanager.AllocationDropper    = (*manager)(nil)
	_ topologymanager.PodAllocator         = (*manager)(nil)
)

// NewManager returns the manager for the machine and the kubelet's
// configuration. The state is in a file in stateFileDirectory, which Start
// reads; affinity tells what the topology manager decided.
func NewManager(logger klog.Logger, policyName string, machineInfo *cadvisorapi.MachineInfo, nodeAllocatableReservation v1.ResourceList, reservedMemory []kubeletconfig.MemoryReservation, stateFileDirectory string, affinity topologymanager.Store) (Manager, error) {
	p, err := newPolicy(policyName, machineInfo, nodeAllocatableReservation, reservedMemory)
	if err != nil {
		return nil, err
	}
	logger.Info("Creating memory manager", "policy", p.name)
	m := &manager{
		policy:        p,
		directory:     stateFileDirectory,
		affinity:      affinity,
		remedy:        "start the pod anew",
		containers:    map[string]containerRef{},
		runningBefore: map[string]bool{},
	}
	m.store.Store(state.New(p.machine))
	return m, nil
}

// Start implements Manager. The status provider is not used: the kubelet binds
// memory when it creates a container, and nothing changes it later. The runtime is
// only asked what containers run on, if that is not in the state file any more.
func (m *manager) Start(ctx context.Context, activePods ActivePodsFunc, sourcesReady config.SourcesReady, _ status.PodStatusProvider, runtime runtimeService, initialContainers containermap.ContainerMap) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting memory manager", "podslice", podslice.Version, "policy", m.policy.name)
	store, seen := m.open(ctx, logger, runtime, initialContainers)
	logShortage(logger, store.Host())

	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.Store(store)
	m.seen = seen
	m.activePods, m.sourcesReady = activePods, sourcesReady
	initialContainers.Visit(func(podUID, name, id string) {
		m.containers[id] = containerRef{podUID, name}
		m.runningBefore[podUID] = true
	})
	if m.policy.static() || store.Host().Records().Len() > 0 {
		go m.collectForEver(ctx)
	} else if podLevel() {
		logger.Info("PodLevelResourceManagers is on, but no container gets exclusive memory under this policy", "policy", m.policy.name)
	}
	return nil
}

// State implements Manager.
func (m *manager) State() state.Reader { return m.store.Load() }

// published is the machine with what is recorded.
func (m *manager) published() memplan.Host { return m.store.Load().Host() }

// replace makes next the records; see state.Store.
func (m *manager) replace(next memplan.Records) error { return m.store.Load().Replace(next) }

// AddContainer implements Manager. What init containers had stays the pod's:
// they run again when the sandbox is made anew.
func (m *manager) AddContainer(_ klog.Logger, pod *v1.Pod, container *v1.Container, containerID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.containers[containerID] = containerRef{string(pod.UID), container.Name}
}

// RemoveContainer implements Manager.
func (m *manager) RemoveContainer(logger klog.Logger, containerID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref, ok := m.containers[containerID]
	if !ok {
		logger.V(2).Info("Container to be removed is not known", "containerID", containerID)
		return nil
	}
	records := m.published().Records()
	record := records.Pod(ref.podUID)
	if left := record.Without(ref.name); !left.Equal(record) {
		if err := m.replace(records.With(ref.podUID, left)); err != nil {
			return err
		}
		logger.V(2).Info("Removed container", "podUID", ref.podUID, "containerName", ref.name)
	}
	delete(m.containers, containerID)
	return nil
}

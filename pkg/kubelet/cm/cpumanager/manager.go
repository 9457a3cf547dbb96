// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/topology"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// ActivePodsFunc lists the pods that are not terminated.
type ActivePodsFunc func() []*v1.Pod

type policyName string

const (
	// PolicyNone gives no container CPUs of its own.
	PolicyNone policyName = "none"
	// PolicyStatic gives CPUs to containers of Guaranteed pods that ask for a
	// whole number, for as long as the pod lives.
	PolicyStatic policyName = "static"
)

// stateFileName is part of the kubelet's surface: others read the file.
const stateFileName = "cpu_manager_state"

type runtimeService interface {
	UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error
}

// Manager is what the kubelet wants of a CPU manager.
type Manager interface {
	// Start restores the state and begins to reconcile. It comes before
	// everything else.
	Start(ctx context.Context, activePods ActivePodsFunc, sourcesReady config.SourcesReady, podStatusProvider status.PodStatusProvider, containerRuntime runtimeService, initialContainers containermap.ContainerMap) error
	// Allocate gives the container its exclusive CPUs, if it is to have any.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error
	// AddContainer says which container ID a container of a pod has got.
	AddContainer(logger klog.Logger, p *v1.Pod, c *v1.Container, containerID string)
	// RemoveContainer takes back what the container has.
	RemoveContainer(logger klog.Logger, containerID string) error
	// State reads what is given out.
	State() state.Reader
	// GetTopologyHints says where the container's exclusive CPUs could come from.
	GetTopologyHints(logger klog.Logger, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint
	// GetExclusiveCPUs is the CPUs recorded for the container. While the gate
	// for pod-level resource managers is off, the kubelet takes them for
	// exclusive and lifts the container's CFS quota.
	GetExclusiveCPUs(podUID, containerName string) cpuset.CPUSet
	// GetPodCPUs is the CPUs of the pod's budget.
	GetPodCPUs(podUID string) cpuset.CPUSet
	// GetPodTopologyHints says where the pod's exclusive CPUs could come from.
	GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint
	// AllocatePod gives the pod its budget and carves it for the containers.
	AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error
	// GetAllocatableCPUs is the CPUs that containers can get for themselves on
	// an idle node.
	GetAllocatableCPUs() cpuset.CPUSet
	// GetCPUAffinity is the CPUs that the container runs on; empty means any.
	GetCPUAffinity(podUID, containerName string) cpuset.CPUSet
	// GetAllCPUs is the online CPUs.
	GetAllCPUs() cpuset.CPUSet
	// GetResourceIsolationLevel says what the container's CPUs are kept from.
	GetResourceIsolationLevel(pod *v1.Pod, container *v1.Container) cmqos.ResourceIsolationLevel
}

// manager implements Manager for both policies.
type manager struct {
	policy          policyName
	reconcilePeriod time.Duration
	stateDir        string
	affinity        topologymanager.Store
	allCPUs         cpuset.CPUSet
	// node is nil for the none policy.
	node          *cpuplan.Node
	fullPCPUsOnly bool

	activePods   ActivePodsFunc
	sourcesReady config.SourcesReady
	podStatus    status.PodStatusProvider
	runtime      runtimeService
	// wake asks for a reconciliation before the period is over.
	wake chan struct{}

	// store is set by Start; reading it needs no lock, and the kubelet reads
	// before that.
	store atomic.Pointer[state.Store]

	// updater brings running containers in line. lastTargets keeps what targets
	// made of the store's content.
	updater     *updater
	lastTargets atomic.Pointer[targets]
	// startWait is maxStartWait, except in tests.
	startWait time.Duration
	// releasing is set under the none policy while containers are released that
	// another policy had bound to CPUs.
	releasing atomic.Bool

	// sharing has the containers (containerKey) that were seen to run in the
	// pool of their pod.
	sharing sync.Map

	// mu guards what follows.
	mu sync.Mutex
	// remedy is what helps a pod that runs without what it asks for.
	remedy string
	// committed is what the state file says.
	committed cpuplan.State
	// admission is the one that is open, or the last one.
	admission    admission
	containerMap containermap.ContainerMap
	// runningBefore are the pods that had containers in the runtime when the
	// kubelet started, for as long as they are active.
	runningBefore map[string]bool
	// unconfirmed are the pods whose record was made of what their containers
	// were seen to run on, until it is known what they ask for.
	unconfirmed map[string]bool
}

var (
	_ Manager                              = (*manager)(nil)
	_ topologymanager.HintProvider         = (*manager)(nil)
	_ topologymanager.AdmissionParticipant = (*manager)(nil)
	_ topologymanager.AdmissionSettler     = (*manager)(nil)
	_ topologymanager.AllocationHolder     = (*manager)(nil)
	_ topologymanager.AllocationDropper    = (*manager)(nil)
	_ topologymanager.PodAllocator         = (*manager)(nil)
)

type containerKey struct{ podUID, name string }

// NewManager checks the configuration against the machine. The reservation
// decides how many CPUs are reserved, rounded up to a whole number; which ones
// they are is up to specificCPUs or, when that is empty, chosen.
func NewManager(logger klog.Logger, cpuPolicyName string, cpuPolicyOptions map[string]string, reconcilePeriod time.Duration, machineInfo *cadvisorapi.MachineInfo, specificCPUs cpuset.CPUSet, nodeAllocatableReservation v1.ResourceList, stateFileDirectory string, affinity topologymanager.Store) (Manager, error) {
	machine, err := topology.Discover(logger, machineInfo)
	if err != nil {
		return nil, err
	}
	m := &manager{
		policy:          policyName(cpuPolicyName),
		reconcilePeriod: reconcilePeriod,
		stateDir:        stateFileDirectory,
		affinity:        affinity,
		allCPUs:         machine.CPUDetails.CPUs(),
		wake:            make(chan struct{}, 1),
		containerMap:    containermap.NewContainerMap(),
		runningBefore:   map[string]bool{},
		unconfirmed:     map[string]bool{},
		startWait:       maxStartWait,
		remedy:          "start the pod anew",
	}
	m.updater = newUpdater(toPlan(m.allCPUs), m.targets)
	registerMetrics()
	switch m.policy {
	case PolicyNone:
		if len(cpuPolicyOptions) > 0 {
			return nil, fmt.Errorf("new none policy error: None policy: received unsupported options=%v", cpuPolicyOptions)
		}
	case PolicyStatic:
		if runtime.GOOS == "windows" {
			return nil, fmt.Errorf("new static policy error: policy %q is not supported on Windows yet", PolicyStatic)
		}
		if reconcilePeriod <= 0 {
			return nil, fmt.Errorf("new static policy error: cpuManagerReconcilePeriod must be longer than 0, not %s", reconcilePeriod)
		}
		reserved, err := reservedCount(nodeAllocatableReservation)
		if err != nil {
			return nil, err
		}
		options, err := parseOptions(cpuPolicyOptions)
		if err == nil {
			err = checkOptions(options, affinity)
		}
		if err != nil {
			return nil, fmt.Errorf("new static policy error: %w", err)
		}
		cpus, err := machine.Plan()
		if err != nil {
			return nil, fmt.Errorf("new static policy error: [cpumanager] %w", err)
		}
		if m.node, err = cpuplan.NewNode(cpus, toPlan(specificCPUs), reserved, options); err != nil {
			return nil, fmt.Errorf("new static policy error: %w", err)
		}
		m.fullPCPUsOnly = options.FullPCPUsOnly
		logger.Info("CPU manager has read the machine", "cpus", cpus.All(), "numaNodes", cpus.Nodes(),
			"reserved", m.node.Reserved(), "threadsPerCore", cpus.ThreadsPerCore(),
			"options", options)
	default:
		return nil, fmt.Errorf("unknown policy: %q", cpuPolicyName)
	}
	return m, nil
}

// reservedCount is how many CPUs the node's reservation comes to.
func reservedCount(reservation v1.ResourceList) (int, error) {
	cpu, ok := reservation[v1.ResourceCPU]
	if !ok {
		return 0, fmt.Errorf("[cpumanager] unable to determine reserved CPU resources for static policy")
	}
	// Without reserved CPUs nothing would be left for what has none of its own.
	if cpu.Sign() <= 0 {
		return 0, fmt.Errorf("[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero")
	}
	if cpu.CmpInt64(cpuplan.MaxCPUs) > 0 {
		return 0, fmt.Errorf("[cpumanager] unable to reserve %s CPUs: more than any machine has", cpu.String())
	}
	return int((cpu.MilliValue() + 999) / 1000), nil
}

// Start implements Manager.
func (m *manager) Start(ctx context.Context, activePods ActivePodsFunc, sourcesReady config.SourcesReady, podStatusProvider status.PodStatusProvider, containerRuntime runtimeService, initialContainers containermap.ContainerMap) error {
	logger := klog.FromContext(ctx)
	logger.Info("Starting CPU manager", "podslice", podslice.Version, "policy", m.policy, "reconcilePeriod", m.reconcilePeriod)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.activePods, m.sourcesReady = activePods, sourcesReady
	m.podStatus, m.runtime = podStatusProvider, containerRuntime
	if initialContainers != nil {
		m.containerMap = initialContainers
	}
	m.containerMap.Visit(func(podUID, _, _ string) { m.runningBefore[podUID] = true })
	m.restore(ctx, logger)
	if m.node == nil && podLevel() {
		logger.Info("PodLevelResourceManagers is on, but no container gets exclusive CPUs under this policy", "policy", m.policy)
	}
	if m.node == nil && !m.releasing.Load() {
		return nil
	}
	m.updater.start(ctx, containerRuntime, m.period())
	m.containerMap.Visit(func(podUID, name, id string) { m.updater.found(containerKey{podUID, name}, id) })
	if m.node == nil {
		go m.releaseLoop(ctx)
	} else {
		go m.reconcileLoop(ctx)
	}
	return nil
}

// RemoveContainer implements Manager.
func (m *manager) RemoveContainer(logger klog.Logger, containerID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	podUID, name, err := m.containerMap.GetContainerRef(containerID)
	if err != nil {
		// A container that was never added holds nothing.
		return nil
	}
	if err := m.commit(m.committed.With(podUID, m.committed.Record(podUID).Without(name))); err != nil {
		logger.Error(err, "Could not release the CPUs of a container", "podUID", podUID, "containerName", name)
		return err
	}
	m.containerMap.RemoveByContainerID(containerID)
	m.updater.ended(containerID)
	return nil
}

// State implements Manager.
func (m *manager) State() state.Reader { return m.content() }

// GetExclusiveCPUs implements Manager.
func (m *manager) GetExclusiveCPUs(podUID, containerName string) cpuset.CPUSet {
	if _, shares := m.sharing.Load(containerKey{podUID, containerName}); shares && !podLevelManagers() {
		return cpuset.New()
	}
	cpus, _ := m.content().GetCPUSet(podUID, containerName)
	return cpus
}

// GetPodCPUs implements Manager.
func (m *manager) GetPodCPUs(podUID string) cpuset.CPUSet {
	cpus, _ := m.content().GetPodCPUSet(podUID)
	return cpus
}

// GetAllocatableCPUs implements Manager. Nothing is allocatable under the none
// policy, by which the kubelet tells that it gives out no CPUs.
func (m *manager) GetAllocatableCPUs() cpuset.CPUSet {
	if m.node == nil {
		return cpuset.New()
	}
	return fromPlan(m.node.Allocatable())
}

// GetAllCPUs implements Manager.
func (m *manager) GetAllCPUs() cpuset.CPUSet { return m.allCPUs.Clone() }

// toPlan and fromPlan convert between the kubelet's sets and the core's.
func toPlan(cpus cpuset.CPUSet) cpuplan.Set { return cpuplan.NewSet(cpus.UnsortedList()...) }

func fromPlan(cpus cpuplan.Set) cpuset.CPUSet { return cpuset.New(cpus.List()...) }

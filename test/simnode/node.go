// SPDX-License-Identifier: Apache-2.0

// Package simnode is a node without a kernel: a machine, the two state files,
// the pods, and the three managers of one kubelet after the other, wired as the
// kubelet wires them. Tests tell it what happens on the node and look at what
// every container would be given.
package simnode

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/topology"
	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// Settings are the parts of a KubeletConfiguration that matter to the managers.
type Settings struct {
	TopologyPolicy, Scope string
	// CPUPolicy and MemoryPolicy are the names of the policies; empty means
	// "static" and "Static".
	CPUPolicy, MemoryPolicy string
	// Gate is the feature gate PodLevelResourceManagers.
	Gate bool
	// ReservedCPUs are the reserved CPUs or, when empty, the CPU manager chooses
	// as many as Reserve says.
	ReservedCPUs cpuset.CPUSet
	Reserve      int
	// ReservedMemory is what is reserved on the first NUMA node; empty means 1Gi.
	ReservedMemory  string
	CPUOptions      map[string]string
	TopologyOptions map[string]string
	// Period is the CPU manager's reconcile period; 0 means an hour, so that
	// nothing happens by itself.
	Period time.Duration
}

// Kubelet is the three managers of one start of the kubelet.
type Kubelet struct {
	Topology topologymanager.Manager
	CPU      cpumanager.Manager
	Memory   memorymanager.Manager
}

// Node is what outlives a kubelet: the machine, the state files and the pods.
type Node struct {
	testing.TB
	// Dir has the state files.
	Dir  string
	Info *cadvisorapi.MachineInfo
	Settings
	// Kubelet is the one that was started last.
	Kubelet
	// Devices is nil on a node without devices.
	Devices *Devices
	// Logger is what the managers log to; without one they are silent.
	Logger klog.Logger
	// Mute has the runtime tell nothing about containers.
	Mute bool

	// Wrap, if it is set, may put other managers in the place of those that a
	// kubelet starts with, for tests of tests.
	Wrap func(Kubelet) Kubelet

	// gate is what the feature gates were last set to; nil before that.
	gate *bool
	// wholeCores are the pods that got their CPUs under full-pcpus-only.
	wholeCores map[string]bool
	// removed is whether pods have gone since a pod was last admitted.
	removed bool
	stop    context.CancelFunc
	sources *sources
	// read is what the CPU manager reads of the machine readOf.
	read   *topology.CPUTopology
	readOf *cadvisorapi.MachineInfo

	// mu guards what follows, which managers ask for in the background too.
	mu   sync.Mutex
	pods []*v1.Pod
	// containers are those that the runtime knows, ended ones included: their
	// IDs by pod UID and name.
	containers map[string]map[string]string
	// runs are the containers that run, by ID, and what they are bound to.
	runs map[string]*runtimeapi.LinuxContainerResources
}

// New returns a node with an empty folder for its state files, the gate on,
// restricted alignment and scope pod. Its kubelet is not started.
func New(tb testing.TB) *Node {
	return &Node{
		TB: tb, Dir: tb.TempDir(), Logger: klog.Logger{},
		Settings:   Settings{TopologyPolicy: "restricted", Scope: "pod", Gate: true},
		wholeCores: map[string]bool{}, containers: map[string]map[string]string{},
		runs: map[string]*runtimeapi.LinuxContainerResources{},
	}
}

// Active is the pods that the kubelet has.
func (n *Node) Active() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.pods)
}

// Pod is the pod of that name, or nil.
func (n *Node) Pod(name string) *v1.Pod {
	for _, pod := range n.Active() {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// Add puts a pod on the kubelet's list. It is not admitted by that.
func (n *Node) Add(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, pod)
}

// Replace puts another version of a pod in its place. The pod is on the list all the
// time: what a pod has that is not is taken back.
func (n *Node) Replace(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, old := range n.pods {
		if old.Name == pod.Name {
			n.pods[i] = pod
		}
	}
}

// Remove takes a pod off the kubelet's list.
func (n *Node) Remove(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = slices.DeleteFunc(n.pods, func(pod *v1.Pod) bool { return pod.Name == name })
}

// sources are the sources of pods, all of which have reported until the kubelet
// is stopped. A process that is gone takes nothing back; goroutines of managers
// that are no longer used still could.
type sources struct{ stopped atomic.Bool }

func (*sources) AddSource(string) {}
func (s *sources) AllReady() bool { return !s.stopped.Load() }

// GetPodStatus says that every container that was started runs.
func (n *Node) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var status v1.PodStatus
	for name, id := range n.containers[string(uid)] {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
			Name: name, ContainerID: "sim://" + id, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
		})
	}
	return status, true
}

// setGates sets the feature gates for the test, if they are others now.
func (n *Node) setGates() {
	if n.gate != nil && *n.gate == n.Gate {
		return
	}
	featuregatetesting.SetFeatureGatesDuringTest(n.TB, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResourceManagers:     n.Gate,
		features.CPUManagerPolicyAlphaOptions: true,
		features.CPUManagerPolicyBetaOptions:  true,

		features.TopologyManagerPolicyAlphaOptions: true,
	})
	on := n.Gate
	n.gate = &on
}

// Start begins a kubelet on the node's state files; one that runs is gone before.
func (n *Node) Start() error {
	n.Stop()
	n.setGates()
	var ctx context.Context
	ctx, n.stop = context.WithCancel(klog.NewContext(context.Background(), n.Logger))
	n.TB.Cleanup(n.stop)
	n.sources = &sources{}
	reservedMemory := resource.MustParse(cmp.Or(n.ReservedMemory, "1Gi"))
	reservation := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(max(n.ReservedCPUs.Size(), n.Reserve)), resource.DecimalSI),
		v1.ResourceMemory: reservedMemory,
	}
	onNode := int32(firstWithMemory(n.Info))
	var k Kubelet
	var err error
	if k.Topology, err = topologymanager.NewManager(n.Logger, n.Info.Topology, n.TopologyPolicy, n.Scope, n.TopologyOptions); err != nil {
		return err
	}
	if n.Devices != nil {
		n.Devices.store = k.Topology
		k.Topology.AddHintProvider(n.Logger, n.Devices)
	}
	if k.CPU, err = cpumanager.NewManager(n.Logger, cmp.Or(n.CPUPolicy, "static"), n.CPUOptions, cmp.Or(n.Period, time.Hour), n.Info, n.ReservedCPUs, reservation, n.Dir, k.Topology); err != nil {
		return err
	}
	if k.Memory, err = memorymanager.NewManager(n.Logger, cmp.Or(n.MemoryPolicy, "Static"), n.Info, reservation,
		[]kubeletconfig.MemoryReservation{{NumaNode: onNode, Limits: v1.ResourceList{v1.ResourceMemory: reservedMemory}}}, n.Dir, k.Topology); err != nil {
		return err
	}
	if n.Wrap != nil {
		k = n.Wrap(k)
	}
	k.Topology.AddHintProvider(n.Logger, k.CPU)
	k.Topology.AddHintProvider(n.Logger, k.Memory)
	if err := k.CPU.Start(ctx, n.Active, n.sources, n, n.runtime(), n.Running()); err != nil {
		return err
	}
	if err := k.Memory.Start(ctx, n.Active, n.sources, n, n.runtime(), n.Running()); err != nil {
		return err
	}
	n.Kubelet = k
	return nil
}

// Stop ends the kubelet, if one runs: what its managers are doing they finish,
// and nothing is written after that.
func (n *Node) Stop() {
	if n.stop == nil {
		return
	}
	n.stop()
	n.sources.stopped.Store(true)
	if n.CPU != nil {
		// Both take the manager's lock, whatever the container.
		_ = n.CPU.RemoveContainer(n.Logger, "")
		_ = n.Memory.RemoveContainer(n.Logger, "")
	}
}

// Admit asks the topology manager, as the kubelet does for a new pod and, when
// it starts, for each that it has.
func (n *Node) Admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	had := !n.HoldingsOf(pod).All.IsEmpty()
	result := n.Ask(pod, lifecycle.AddOperation)
	if !result.Admit {
		return result
	}
	n.removed = false
	if !had {
		n.wholeCores[pod.Name] = n.CPUOptions[cpumanager.FullPCPUsOnlyOption] == "true"
	}
	return result
}

// Ask asks the topology manager whether the operation may be.
func (n *Node) Ask(pod *v1.Pod, operation lifecycle.Operation) lifecycle.PodAdmitResult {
	ctx := klog.NewContext(context.Background(), n.Logger)
	return n.Topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.Active(), Operation: operation})
}

// Files is the two state files, as far as there are any, to see whether something
// was written.
func (n *Node) Files() string {
	var all []byte
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		data, err := os.ReadFile(filepath.Join(n.Dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			n.TB.Fatal(err)
		}
		all = append(all, data...)
	}
	return string(all)
}

// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/features"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// settings are the parts of a KubeletConfiguration that matter here.
type settings struct {
	policy, scope string
	gates         bool
	// reservedCPUs are the reserved CPUs or, when empty, the CPU manager chooses
	// as many as reserve says.
	reservedCPUs    cpuset.CPUSet
	reserve         int
	cpuOptions      map[string]string
	topologyOptions map[string]string
}

// kubelet is the three managers of one start of the kubelet.
type kubelet struct {
	topology topologymanager.Manager
	cpu      cpumanager.Manager
	memory   memorymanager.Manager
}

// node is what outlives a kubelet: the machine, the state files and the pods.
type node struct {
	t    testing.TB
	dir  string
	info *cadvisorapi.MachineInfo
	settings
	kubelet
	started map[string]bool
	// wholeCores are the pods that were admitted under full-pcpus-only.
	wholeCores map[string]bool
	// removed is whether pods have gone since the last admission.
	removed bool
	// devices is nil on a node without devices.
	devices *devices
	stop    context.CancelFunc

	// mu guards the pods, which managers ask for in the background too.
	mu   sync.Mutex
	pods []*v1.Pod
}

// active is the pods that the kubelet has.
func (n *node) active() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.pods)
}

func (n *node) add(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, pod)
}

func (n *node) remove(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = slices.DeleteFunc(n.pods, func(pod *v1.Pod) bool { return pod.Name == name })
}

// ready is all sources of pods having reported.
type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

// GetPodStatus has nothing to reconcile: the scripts look at decisions.
func (n *node) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func (n *node) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

// ContainerStatus says that every container runs.
func (n *node) ContainerStatus(context.Context, string, bool) (*runtimeapi.ContainerStatusResponse, error) {
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, nil
}

// start begins a kubelet on the node's state files.
func (n *node) start() error {
	if n.stop != nil {
		n.stop()
	}
	featuregatetesting.SetFeatureGatesDuringTest(n.t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResourceManagers:     n.gates,
		features.CPUManagerPolicyAlphaOptions: true,
		features.CPUManagerPolicyBetaOptions:  true,

		features.TopologyManagerPolicyAlphaOptions: true,
	})
	logger, ctx := ktesting.NewTestContext(n.t)
	ctx, n.stop = context.WithCancel(ctx)
	n.t.Cleanup(n.stop)
	reservedMemory := resource.MustParse("1Gi")
	reservation := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(max(n.reservedCPUs.Size(), n.reserve)), resource.DecimalSI),
		v1.ResourceMemory: reservedMemory,
	}
	onNode := int32(firstWithMemory(n.info))
	var k kubelet
	var err error
	if k.topology, err = topologymanager.NewManager(logger, n.info.Topology, n.policy, n.scope, n.topologyOptions); err != nil {
		return err
	}
	if n.devices != nil {
		n.devices.store = k.topology
		k.topology.AddHintProvider(logger, n.devices)
	}
	if k.cpu, err = cpumanager.NewManager(logger, "static", n.cpuOptions, time.Hour, n.info, n.reservedCPUs, reservation, n.dir, k.topology); err != nil {
		return err
	}
	k.topology.AddHintProvider(logger, k.cpu)
	if k.memory, err = memorymanager.NewManager(logger, "Static", n.info, reservation,
		[]kubeletconfig.MemoryReservation{{NumaNode: onNode, Limits: v1.ResourceList{v1.ResourceMemory: reservedMemory}}}, n.dir, k.topology); err != nil {
		return err
	}
	k.topology.AddHintProvider(logger, k.memory)
	if err := k.cpu.Start(ctx, n.active, ready{}, n, n, n.running()); err != nil {
		return err
	}
	if err := k.memory.Start(ctx, n.active, ready{}, n, n, n.running()); err != nil {
		return err
	}
	n.kubelet = k
	return nil
}

func (n *node) admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	n.removed = false
	return n.askTopologyManager(pod, lifecycle.AddOperation)
}

func (n *node) askTopologyManager(pod *v1.Pod, operation lifecycle.Operation) lifecycle.PodAdmitResult {
	_, ctx := ktesting.NewTestContext(n.t)
	return n.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: n.active(), Operation: operation})
}

// affinities is what the topology manager tells about each container of the
// pods, known to it or not.
func (n *node) affinities(pods []*v1.Pod) string {
	logger, _ := ktesting.NewTestContext(n.t)
	var b strings.Builder
	for _, pod := range pods {
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for _, c := range list {
				hint := n.topology.GetAffinity(logger, string(pod.UID), c.Name)
				where := "any"
				if hint.NUMANodeAffinity != nil {
					where = fmt.Sprint(hint.NUMANodeAffinity.GetBits())
				}
				fmt.Fprintf(&b, "%s/%s: %s preferred=%t\n", pod.Name, c.Name, where, hint.Preferred)
			}
		}
	}
	return b.String()
}

// restartContainers gives every container of the pod a new ID, the old ones gone
// before, as the kubelet does it.
func (n *node) restartContainers(pod *v1.Pod) {
	logger, _ := ktesting.NewTestContext(n.t)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		require.NoError(n.t, n.topology.RemoveContainer(logger, containerID(pod, c.Name)))
		n.topology.AddContainer(logger, pod, c, containerID(pod, c.Name)+"-again")
	}
}

// running is the containers that the runtime knows of.
func (n *node) running() containermap.ContainerMap {
	containers := containermap.NewContainerMap()
	for _, pod := range n.active() {
		if n.started[pod.Name] {
			for _, c := range pod.Spec.Containers {
				containers.Add(string(pod.UID), c.Name, containerID(pod, c.Name))
			}
		}
	}
	return containers
}

func containerID(pod *v1.Pod, name string) string { return fmt.Sprintf("%s-%s", pod.UID, name) }

// startContainers is the containers' start in the order of the spec.
func (n *node) startContainers(pod *v1.Pod) {
	logger, _ := ktesting.NewTestContext(n.t)
	n.started[pod.Name] = true
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			id := containerID(pod, list[i].Name)
			n.cpu.AddContainer(logger, pod, &list[i], id)
			n.memory.AddContainer(logger, pod, &list[i], id)
			n.topology.AddContainer(logger, pod, &list[i], id)
		}
	}
}

// end is the end of a pod: its containers go, if it has been started, and then
// the pod itself.
func (n *node) end(name string) {
	logger, _ := ktesting.NewTestContext(n.t)
	for _, pod := range n.active() {
		if pod.Name != name || !n.started[name] {
			continue
		}
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				id := containerID(pod, list[i].Name)
				require.NoError(n.t, n.cpu.RemoveContainer(logger, id))
				require.NoError(n.t, n.memory.RemoveContainer(logger, id))
				require.NoError(n.t, n.topology.RemoveContainer(logger, id))
			}
		}
	}
	n.removed = true
	n.remove(name)
}

// files is the two state files, to see whether something was written.
func (n *node) files() string {
	var all []byte
	for _, name := range []string{"cpu_manager_state", "memory_manager_state"} {
		data, err := os.ReadFile(filepath.Join(n.dir, name))
		require.NoError(n.t, err)
		all = append(all, data...)
	}
	return string(all)
}

// describe is what each container of the pod would be given.
func (n *node) describe(pod *v1.Pod) string {
	logger, _ := ktesting.NewTestContext(n.t)
	var b strings.Builder
	uid := string(pod.UID)
	fmt.Fprintf(&b, "%s:", pod.Name)
	if cpus := n.cpu.GetPodCPUs(uid); !cpus.IsEmpty() {
		fmt.Fprintf(&b, " cpus %s", cpus)
	}
	for _, block := range n.memory.GetPodMemory(uid) {
		fmt.Fprintf(&b, " %s %s on %v", block.Type, quantity(block.Size), block.NUMAAffinity)
	}
	b.WriteString("\n")
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			fmt.Fprintf(&b, "  %s: cpus %s (%s)", c.Name, n.cpu.GetCPUAffinity(uid, c.Name), n.cpu.GetResourceIsolationLevel(pod, c))
			nodes := n.memory.GetMemoryNUMANodes(logger, pod, c).UnsortedList()
			slices.Sort(nodes)
			fmt.Fprintf(&b, " mems %v (%s)", nodes, n.memory.GetResourceIsolationLevel(pod, c))
			for _, block := range n.memory.GetMemory(logger, uid, c.Name) {
				fmt.Fprintf(&b, " %s %s", block.Type, quantity(block.Size))
			}
			b.WriteString(n.devices.describe(uid, c.Name) + "\n")
		}
	}
	return b.String()
}

func quantity(bytes uint64) string {
	return resource.NewQuantity(int64(bytes), resource.BinarySI).String()
}

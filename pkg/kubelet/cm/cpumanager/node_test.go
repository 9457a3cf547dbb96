// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// machine has two NUMA nodes of 4 cores with 2 threads: CPU i and i+8 share a
// core, CPUs 0-3 and 8-11 are on node 0.
func machine() *cadvisorapi.MachineInfo {
	info := &cadvisorapi.MachineInfo{NumCores: 16, NumSockets: 2}
	for node := range 2 {
		n := cadvisorapi.Node{Id: node}
		for core := range 4 {
			cpu := node*4 + core
			n.Cores = append(n.Cores, cadvisorapi.Core{Id: core, SocketID: node, Threads: []int{cpu, cpu + 8}})
		}
		info.Topology = append(info.Topology, n)
	}
	return info
}

// fixedAffinity is a store that has one affinity for all.
type fixedAffinity struct{ nodes []int }

func (f fixedAffinity) GetAffinity(klog.Logger, string, string) topologymanager.TopologyHint {
	if f.nodes == nil {
		return topologymanager.TopologyHint{}
	}
	mask, _ := bitmask.NewBitMask(f.nodes...)
	return topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: true}
}
func (fixedAffinity) GetPolicy() topologymanager.Policy { return nil }
func (fixedAffinity) Name() string                      { return "pod" }

type ready bool

func (ready) AddSource(string)    {}
func (r ready) AllReady() bool    { return bool(r) }
func (ready) RemoveSource(string) {}

// node is the world around one kubelet: it outlives its managers.
type node struct {
	t        *testing.T
	dir      string
	options  map[string]string
	affinity fixedAffinity
	reserved cpuset.CPUSet

	mu      sync.Mutex
	pods    []*v1.Pod
	updates map[string]string
	failing bool
	// suffix ends every container's ID; before are the containers that the
	// runtime has when a kubelet starts.
	suffix string
	before containermap.ContainerMap
	stop   context.CancelFunc
	// policy, period and runtime are static, an hour and the node itself.
	policy  policyName
	period  time.Duration
	runtime runtimeService
	// silent has no pod with a status; statuses is the node itself.
	silent   bool
	statuses status.PodStatusProvider
	ready    ready
	// quiet has nothing logged, sink is where to log to.
	quiet bool
	sink  *logr.Logger
}

// log is a logger and a context with it.
func (n *node) log() (klog.Logger, context.Context) {
	if n.sink != nil {
		return *n.sink, klog.NewContext(context.Background(), *n.sink)
	}
	if n.quiet {
		return logr.Discard(), klog.NewContext(context.Background(), logr.Discard())
	}
	return ktesting.NewTestContext(n.t)
}

func newNode(t *testing.T) *node {
	n := &node{t: t, dir: t.TempDir(), reserved: cpuset.New(0, 8), updates: map[string]string{}}
	n.policy, n.period, n.runtime, n.statuses, n.ready = PolicyStatic, time.Hour, n, n, true
	return n
}

func (n *node) active() []*v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*v1.Pod(nil), n.pods...)
}

// GetPodStatus reports every container as running, under an ID of its name and
// of how often it was started again.
func (n *node) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	for _, pod := range n.active() {
		if pod.UID != uid || n.isSilent() {
			continue
		}
		var s v1.PodStatus
		for _, c := range pod.Spec.InitContainers {
			s.InitContainerStatuses = append(s.InitContainerStatuses, n.running(pod, c.Name))
		}
		for _, c := range pod.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, n.running(pod, c.Name))
		}
		for _, c := range pod.Spec.EphemeralContainers {
			s.EphemeralContainerStatuses = append(s.EphemeralContainerStatuses, n.running(pod, c.Name))
		}
		return s, true
	}
	return v1.PodStatus{}, false
}

func (n *node) running(pod *v1.Pod, name string) v1.ContainerStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	return v1.ContainerStatus{
		Name: name, ContainerID: "containerd://" + string(pod.UID) + "-" + name + n.suffix,
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}
}

func (n *node) UpdateContainerResources(_ context.Context, id string, r *runtimeapi.ContainerResources) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing {
		return fmt.Errorf("the runtime is away")
	}
	n.updates[id] = r.Linux.CpusetCpus
	return nil
}

// reconcile reconciles and waits until all calls are made.
func (n *node) reconcile(m *manager) {
	m.Reconcile(context.Background())
	quiesce(m)
}

// quiesce waits until no call is being made and none is due.
func quiesce(m *manager) {
	u := m.updater
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.workers > 0 {
		changed := u.wait()
		u.mu.Unlock()
		<-changed
		u.mu.Lock()
	}
}

func (n *node) update(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.updates[id]
}

// start is a start of the kubelet.
func (n *node) start() *manager {
	n.t.Helper()
	m, err := n.tryStart()
	require.NoError(n.t, err)
	return m
}

func (n *node) tryStart() (*manager, error) {
	logger, ctx := n.log()
	// The kubelet before this one has ended.
	if n.stop != nil {
		n.stop()
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.t.Cleanup(n.stop)
	reservation := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n.reserved.Size()), resource.DecimalSI)}
	m, err := NewManager(logger, string(n.policy), n.options, n.period, machine(), n.reserved, reservation, n.dir, n.affinity)
	if err != nil {
		return nil, err
	}
	return m.(*manager), m.Start(ctx, n.active, n.ready, n.statuses, n.runtime, n.before)
}

func (n *node) add(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = append(n.pods, pod)
}

// admit is what the topology manager does in the scope of the pod, or of the
// container.
func (n *node) admit(m *manager, pod *v1.Pod, whole bool) error {
	logger, ctx := n.log()
	uid := string(pod.UID)
	m.BeginAdmission(logger, uid)
	err := allocate(ctx, m, pod, whole)
	if err == nil {
		err = m.CommitAdmission(logger, uid)
	}
	if err != nil {
		require.NoError(n.t, m.RollbackAdmission(logger, uid))
	} else {
		m.SettleAdmission(logger, uid)
	}
	return err
}

func allocate(ctx context.Context, m *manager, pod *v1.Pod, whole bool) error {
	if whole {
		return m.AllocatePod(klog.FromContext(ctx), pod, lifecycle.AddOperation)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := m.Allocate(ctx, pod, &list[i], lifecycle.AddOperation); err != nil {
				return err
			}
		}
	}
	return nil
}

// setSilent says whether pods have no status from now on.
func (n *node) setSilent(silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
}

// setSuffix has all containers started again.
func (n *node) setSuffix(suffix string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.suffix = suffix
}

func (n *node) isSilent() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent
}

func (n *node) remove(uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = slices.DeleteFunc(n.pods, func(pod *v1.Pod) bool { return string(pod.UID) == uid })
}

// create is what the kubelet does before it starts a container: it reads the
// CPUs and creates the container with them. The ID is that of running.
func (n *node) create(m *manager, r *cri, pod *v1.Pod, name string) string {
	id := string(pod.UID) + "-" + name + n.suffix
	r.create(id, m.GetCPUAffinity(string(pod.UID), name).String())
	return id
}

// startContainer adds the container that was created, and starts it then.
func (n *node) startContainer(m *manager, r *cri, pod *v1.Pod, name, id string) {
	logger, _ := n.log()
	m.AddContainer(logger, pod, &v1.Container{Name: name}, id)
	r.begins(id)
}

func (n *node) runContainer(m *manager, r *cri, pod *v1.Pod, name string) string {
	id := n.create(m, r, pod, name)
	n.startContainer(m, r, pod, name, id)
	m.updater.observe(containerKey{string(pod.UID), name}, id)
	return id
}

// breakDisk lets no state file be written any more.
func (n *node) breakDisk() { require.NoError(n.t, os.RemoveAll(n.dir)) }

func (n *node) file() string {
	data, err := os.ReadFile(filepath.Join(n.dir, stateFileName))
	require.NoError(n.t, err)
	return string(data)
}

func resources(cpu, memory string) v1.ResourceRequirements {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

func container(name, cpu string) v1.Container {
	c := v1.Container{Name: name}
	if cpu != "" {
		c.Resources = resources(cpu, "1Gi")
	}
	return c
}

// pod has the given containers; a budget of "" is none.
func pod(uid, budget string, containers ...v1.Container) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "test", UID: types.UID(uid)}}
	p.Spec.Containers = containers
	if budget != "" {
		r := resources(budget, "16Gi")
		p.Spec.Resources = &r
	}
	return p
}

func database(uid string) *v1.Pod {
	p := pod(uid, "6", container("database", "4"))
	always := v1.ContainerRestartPolicyAlways
	for _, name := range []string{"metrics-exporter", "backup-agent"} {
		c := container(name, "")
		c.RestartPolicy = &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return p
}

func gates(t *testing.T, on bool) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResourceManagers: on,
	})
}

// fixedStatuses is the statuses of pods.
type fixedStatuses map[types.UID]v1.PodStatus

func (f fixedStatuses) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	status, ok := f[uid]
	return status, ok
}

func resourceCPU(count int64) resource.Quantity {
	return *resource.NewQuantity(count, resource.DecimalSI)
}

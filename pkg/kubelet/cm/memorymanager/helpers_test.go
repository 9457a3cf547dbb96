// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/features"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

const (
	gi       = 1 << 30
	add      = lifecycle.AddOperation
	resizing = lifecycle.ResizeOperation
)

// node is a kubelet's worth of managers over one folder: the memory manager
// alone, under our topology manager. restart makes them anew.
type node struct {
	t        *testing.T
	dir      string
	topology []cadvisorapi.Node
	reserved []kubeletconfig.MemoryReservation
	policy   string
	scope    string
	active   []*v1.Pod
	// memoryPolicy is Static if it is empty.
	memoryPolicy policyType
	// running is passed to Start.
	running containermap.ContainerMap

	*manager
	tm   topologymanager.Manager
	stop context.CancelFunc
}

// newNode is two NUMA nodes of 32Gi, 1Gi of each reserved.
func newNode(t *testing.T, policy, scope string) *node {
	n := &node{t: t, dir: t.TempDir(), policy: policy, scope: scope}
	for id := range 2 {
		n.topology = append(n.topology, cadvisorapi.Node{Id: id, Memory: 32 * gi})
		n.reserved = append(n.reserved, kubeletconfig.MemoryReservation{NumaNode: int32(id), Limits: v1.ResourceList{"memory": resource.MustParse("1Gi")}})
	}
	n.restart()
	return n
}

func (n *node) restart() {
	n.t.Helper()
	require.NoError(n.t, n.tryRestart())
}

func (n *node) tryRestart() error {
	logger, ctx := ktesting.NewTestContext(n.t)
	ctx, cancel := context.WithCancel(ctx)
	n.t.Cleanup(cancel)
	if n.stop != nil {
		// Two kubelets would get in each other's way at the state file.
		n.stop()
	}
	n.stop = cancel
	total := resource.Quantity{}
	for _, r := range n.reserved {
		total.Add(r.Limits["memory"])
	}
	tm, err := topologymanager.NewManager(logger, n.topology, n.policy, n.scope, nil)
	require.NoError(n.t, err)
	m, err := NewManager(logger, string(cmp.Or(n.memoryPolicy, PolicyTypeStatic)), &cadvisorapi.MachineInfo{Topology: n.topology}, v1.ResourceList{"memory": total}, n.reserved, n.dir, tm)
	require.NoError(n.t, err)
	require.Empty(n.t, m.State().GetMemoryAssignments(), "readable before Start")
	n.manager, n.tm = m.(*manager), tm
	tm.AddHintProvider(logger, m)
	return m.Start(ctx, func() []*v1.Pod { return n.active }, allReady{}, nil, nil, n.running)
}

type allReady struct{ config.SourcesReady }

func (allReady) AllReady() bool { return true }

// admit runs the pod through the topology manager, as the kubelet does, and
// counts it among the active pods.
func (n *node) admit(pod *v1.Pod) lifecycle.PodAdmitResult {
	n.t.Helper()
	_, ctx := ktesting.NewTestContext(n.t)
	known := false
	for _, p := range n.active {
		known = known || p.UID == pod.UID
	}
	if !known {
		n.active = append(n.active, pod)
	}
	result := n.tm.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: add})
	if !result.Admit {
		n.remove(pod)
	}
	return result
}

func (n *node) mustAdmit(pod *v1.Pod) {
	n.t.Helper()
	result := n.admit(pod)
	require.True(n.t, result.Admit, "%s: %s", result.Reason, result.Message)
}

// remove ends the pod; what it has is only collected later.
func (n *node) remove(pod *v1.Pod) {
	var left []*v1.Pod
	for _, p := range n.active {
		if p.UID != pod.UID {
			left = append(left, p)
		}
	}
	n.active = left
}

func (n *node) file() string { return filepath.Join(n.dir, memoryManagerStateFileName) }

func (n *node) content() string {
	n.t.Helper()
	text, err := os.ReadFile(n.file())
	require.NoError(n.t, err)
	return string(text)
}

// stamp tells one replacement of the file from the next.
func (n *node) stamp() os.FileInfo {
	n.t.Helper()
	info, err := os.Stat(n.file())
	require.NoError(n.t, err)
	return info
}

// breakDisk makes replacing the file fail, for root too; the answer repairs it.
func (n *node) breakDisk() func() {
	n.t.Helper()
	saved := n.content()
	require.NoError(n.t, os.Remove(n.file()))
	require.NoError(n.t, os.MkdirAll(filepath.Join(n.file(), "busy"), 0o755))
	return func() {
		require.NoError(n.t, os.RemoveAll(n.file()))
		require.NoError(n.t, os.WriteFile(n.file(), []byte(saved), 0o600))
	}
}

// free is what a NUMA node has left of ordinary memory, in Gi.
func (n *node) free(id int) float64 {
	return float64(n.State().GetMachineState()[id].MemoryMap["memory"].Free) / gi
}

func setGates(t *testing.T, on bool) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
		features.PodLevelResources:        true,
		features.PodLevelResourceManagers: on,
	})
}

// pod makes a Guaranteed pod; change sets its containers.
func pod(uid string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)},
		Status:     v1.PodStatus{QOSClass: v1.PodQOSGuaranteed},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func amounts(cpu, memory string) v1.ResourceRequirements {
	list := v1.ResourceList{}
	if cpu != "" {
		list[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

func budget(cpu, memory string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		r := amounts(cpu, memory)
		p.Spec.Resources = &r
	}
}

func app(name, cpu, memory string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Resources: amounts(cpu, memory)})
	}
}

func initContainer(name, cpu, memory string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name, Resources: amounts(cpu, memory)})
	}
}

func sidecar(name, cpu, memory string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		initContainer(name, cpu, memory)(p)
		always := v1.ContainerRestartPolicyAlways
		p.Spec.InitContainers[len(p.Spec.InitContainers)-1].RestartPolicy = &always
	}
}

func database() *v1.Pod {
	return pod("database", budget("8", "16Gi"), sidecar("metrics-exporter", "", ""), sidecar("backup-agent", "", ""), app("database", "6", "12Gi"))
}

func mlWorkload() *v1.Pod {
	return pod("ml", budget("4", "8Gi"), sidecar("service-mesh-sidecar", "", ""), app("ml-training", "3", "6Gi"))
}

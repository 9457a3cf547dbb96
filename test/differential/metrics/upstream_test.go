// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"testing"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
)

// theirs are the kubelet's own managers, wired as simnode wires ours.
type theirs struct {
	t        *testing.T
	settings simnode.Settings
	info     *cadvisorapi.MachineInfo
	dir      string
	pods     []*v1.Pod
	topology topologymanager.Manager
}

type ready struct{ config.SourcesReady }

func (ready) AllReady() bool { return true }

// noStatus has no pod to reconcile.
type noStatus struct{}

func (noStatus) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

func (n *theirs) start() {
	logger := klog.Logger{}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	n.t.Cleanup(cancel)
	memory := resource.MustParse("1Gi")
	reservation := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(n.settings.ReservedCPUs.Size()), resource.DecimalSI), v1.ResourceMemory: memory}
	s := n.settings
	var err error
	n.topology, err = topologymanager.NewManager(logger, n.info.Topology, s.TopologyPolicy, s.Scope, nil)
	require.NoError(n.t, err)
	cpus, err := cpumanager.NewManager(logger, string(cpumanager.PolicyStatic), nil, time.Hour, n.info, s.ReservedCPUs, reservation, n.dir, n.topology)
	require.NoError(n.t, err)
	n.topology.AddHintProvider(logger, cpus)
	mem, err := memorymanager.NewManager(logger, string(memorymanager.PolicyTypeStatic), n.info, reservation,
		[]kubeletconfig.MemoryReservation{{NumaNode: 0, Limits: v1.ResourceList{v1.ResourceMemory: memory}}}, n.dir, n.topology)
	require.NoError(n.t, err)
	n.topology.AddHintProvider(logger, mem)
	active := func() []*v1.Pod { return n.pods }
	require.NoError(n.t, cpus.Start(ctx, active, ready{}, noStatus{}, nil, containermap.NewContainerMap()))
	require.NoError(n.t, mem.Start(ctx, active, ready{}, noStatus{}, nil, containermap.NewContainerMap()))
}

func (n *theirs) admit(pod *v1.Pod) bool {
	n.pods = append(n.pods, pod)
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	result := n.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
	if !result.Admit {
		n.pods = n.pods[:len(n.pods)-1]
	}
	return result.Admit
}

var reserved = cpuset.New(0, 8)

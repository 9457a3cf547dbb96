// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/utils/cpuset"

	ours "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// crowd is 100 pods with 10 containers each, which run in the node shared pool.
// It is all that a manager asks for.
type crowd struct {
	pods     []*v1.Pod
	statuses map[types.UID]v1.PodStatus
	updates  atomic.Int64
	// rounds gets a value each time that a manager begins to go through the
	// pods, which waits for it.
	rounds chan struct{}
	ctx    context.Context
}

func newCrowd(ctx context.Context) *crowd {
	c := &crowd{statuses: map[types.UID]v1.PodStatus{}, rounds: make(chan struct{}), ctx: ctx}
	for p := range 100 {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", p), UID: types.UID(fmt.Sprint("uid", p))}}
		var status v1.PodStatus
		for i := range 10 {
			name := fmt.Sprint("c", i)
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
			status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
				Name: name, ContainerID: fmt.Sprintf("containerd://%s-%s", pod.Name, name),
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
			})
		}
		c.pods = append(c.pods, pod)
		c.statuses[pod.UID] = status
	}
	return c
}

func (c *crowd) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	if uid == c.pods[0].UID {
		select {
		case c.rounds <- struct{}{}:
		case <-c.ctx.Done():
		}
	}
	s, ok := c.statuses[uid]
	return s, ok
}

func (c *crowd) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	c.updates.Add(1)
	return nil
}
func (c *crowd) activePods() []*v1.Pod { return c.pods }
func (*crowd) AddSource(string)        {}
func (*crowd) AllReady() bool          { return true }

// BenchmarkReconcile goes through 1,000 containers of which none has to change.
func BenchmarkReconcile(b *testing.B) {
	m, err := catalog.Get("amd-epyc-9654-nps1")
	require.NoError(b, err)
	info := m.MachineInfo()
	reservation := v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	// The loop of a manager does not rest between rounds.
	const period = time.Nanosecond
	for name, start := range map[string]func(context.Context, *crowd) error{
		"upstream": func(ctx context.Context, c *crowd) error {
			manager, err := cpumanager.NewManager(quiet, "static", nil, period, info, cpuset.New(), reservation, b.TempDir(), &affinity{})
			if err != nil {
				return err
			}
			return manager.Start(ctx, c.activePods, c, c, c, containermap.NewContainerMap())
		},
		"ours": func(ctx context.Context, c *crowd) error {
			manager, err := ours.NewManager(quiet, "static", nil, period, info, cpuset.New(), reservation, b.TempDir(), topologymanager.NewFakeManager(quiet))
			if err != nil {
				return err
			}
			return manager.Start(ctx, c.activePods, c, c, c, containermap.NewContainerMap())
		},
	} {
		b.Run("containers=1000/"+name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), quiet))
			defer cancel()
			c := newCrowd(ctx)
			require.NoError(b, start(ctx, c))
			for c.updates.Load() < 1000 {
				<-c.rounds
			}
			<-c.rounds
			b.ReportAllocs()
			for b.Loop() {
				<-c.rounds
			}
			b.StopTimer()
			require.EqualValues(b, 1000, c.updates.Load(), "something was sent although nothing changed")
		})
	}
}

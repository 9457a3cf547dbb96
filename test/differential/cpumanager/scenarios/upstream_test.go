// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	upmanager "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	uptopology "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	upbitmask "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

// upstreamSide drives the kubelet's own manager.
type upstreamSide struct {
	k          *kubelet
	manager    upmanager.Manager
	affinities upstreamStore
}

func newUpstream(s *side) *side {
	s.managerUnderTest = &upstreamSide{k: s.kubelet, affinities: upstreamStore{k: s.kubelet, hints: map[[2]string]uptopology.TopologyHint{}}}
	return s
}

// lateSources says that all sources of pods have reported once the manager's
// loop was let go.
type lateSources struct{ ready atomic.Bool }

func (*lateSources) AddSource(string) {}
func (l *lateSources) AllReady() bool { return l.ready.Load() }

func (o *upstreamSide) start(running containermap.ContainerMap) error {
	set := o.k.scenario.Settings
	manager, err := upmanager.NewManager(quiet, "static", o.k.options(), time.Hour, o.k.scenario.Machine.Info(), set.ReservedSet(), o.k.reservation(), o.k.dir, o.affinities)
	if err != nil {
		return err
	}
	// The loop that reconciles can never be stopped, and a run starts very many
	// managers. The loop's first question for pods, which comes at once, ends it.
	sources, asked := &lateSources{}, make(chan struct{})
	activePods := func() []*v1.Pod {
		if !sources.AllReady() {
			close(asked)
			runtime.Goexit()
		}
		return o.k.activePods()
	}
	if err := manager.Start(klog.NewContext(context.Background(), quiet), activePods, sources, o.k, o.k, running); err != nil {
		return err
	}
	<-asked
	sources.ready.Store(true)
	o.manager = manager
	return nil
}

func (o *upstreamSide) stop() {}

func (o *upstreamSide) setAffinity(pod, container string, any bool, nodes uint64) {
	hint := uptopology.TopologyHint{}
	if !any {
		hint.NUMANodeAffinity = upbitmask.NewEmptyBitMask()
		for id := range 64 {
			if nodes>>id&1 == 1 {
				_ = hint.NUMANodeAffinity.Add(id)
			}
		}
	}
	o.affinities.hints[[2]string{pod, container}] = hint
}

func upstreamHints(lists map[string][]uptopology.TopologyHint) *[]hint {
	list, ok := lists["cpu"]
	if !ok {
		return nil
	}
	hints := []hint{}
	for _, h := range list {
		var nodes uint64
		for _, id := range h.NUMANodeAffinity.GetBits() {
			nodes |= 1 << id
		}
		hints = append(hints, hint{nodes, h.Preferred})
	}
	return &hints
}

func (o *upstreamSide) podHints(pod *v1.Pod) *[]hint {
	return upstreamHints(o.manager.GetPodTopologyHints(quiet, pod, lifecycle.AddOperation))
}

func (o *upstreamSide) hints(pod *v1.Pod, c *v1.Container) *[]hint {
	return upstreamHints(o.manager.GetTopologyHints(quiet, pod, c, lifecycle.AddOperation))
}

func (o *upstreamSide) allocatePod(pod *v1.Pod) error {
	return o.manager.AllocatePod(quiet, pod, lifecycle.AddOperation)
}

func (o *upstreamSide) allocate(pod *v1.Pod, c *v1.Container) error {
	return o.manager.Allocate(klog.NewContext(context.Background(), quiet), pod, c, lifecycle.AddOperation)
}

func (o *upstreamSide) addContainer(pod *v1.Pod, c *v1.Container, id string) {
	o.manager.AddContainer(quiet, pod, c, id)
}

func (o *upstreamSide) snapshot() snapshot {
	reader := o.manager.State()
	s := snapshot{Default: reader.GetDefaultCPUSet().String(), Pods: map[string]string{}, Containers: map[string]map[string]string{}}
	for pod, entry := range reader.GetPodCPUAssignments() {
		s.Pods[pod] = entry.CPUSet.String()
	}
	for pod, containers := range reader.GetCPUAssignments() {
		for name, cpus := range containers {
			if s.Containers[pod] == nil {
				s.Containers[pod] = map[string]string{}
			}
			s.Containers[pod][name] = cpus.String()
		}
	}
	return s
}

func (o *upstreamSide) views(pods []*v1.Pod) map[string]string {
	views := map[string]string{"allocatable": o.manager.GetAllocatableCPUs().String(), "all": o.manager.GetAllCPUs().String()}
	for _, pod := range pods {
		uid := string(pod.UID)
		views[uid] = o.manager.GetPodCPUs(uid).String()
		for _, c := range containersOf(pod) {
			views[uid+"/"+c.Name] = o.manager.GetCPUAffinity(uid, c.Name).String() + " " +
				o.manager.GetExclusiveCPUs(uid, c.Name).String() + " " + string(o.manager.GetResourceIsolationLevel(pod, &c))
		}
	}
	return views
}

// The kubelet's own manager has no transactions.
func (*upstreamSide) begin(string)          {}
func (*upstreamSide) commit(string) error   { return nil }
func (*upstreamSide) rollback(string) error { return nil }

// upstreamStore is the topology manager as the kubelet's own CPU manager sees it.
type upstreamStore struct {
	k     *kubelet
	hints map[[2]string]uptopology.TopologyHint
}

func (s upstreamStore) GetAffinity(_ klog.Logger, pod, container string) uptopology.TopologyHint {
	return s.hints[[2]string{pod, container}]
}
func (s upstreamStore) GetPolicy() uptopology.Policy {
	return upstreamPolicy(s.k.scenario.Settings.Policy)
}
func (s upstreamStore) Name() string { return s.k.scenario.Settings.Scope }

// upstreamPolicy is a policy of which only the name counts.
type upstreamPolicy string

func (p upstreamPolicy) Name() string { return string(p) }
func (upstreamPolicy) Merge(klog.Logger, []map[string][]uptopology.TopologyHint) (uptopology.TopologyHint, bool) {
	return uptopology.TopologyHint{}, true
}

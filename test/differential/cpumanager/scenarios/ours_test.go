// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"context"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	ourmanager "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	ourtopology "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	ourbitmask "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// ourSide drives our manager.
type ourSide struct {
	k          *kubelet
	manager    ourmanager.Manager
	affinities ourStore
	cancel     context.CancelFunc
}

func newOurs(s *side) *side {
	s.managerUnderTest = &ourSide{k: s.kubelet, affinities: ourStore{k: s.kubelet, hints: map[[2]string]ourtopology.TopologyHint{}}}
	return s
}

// allReady is all sources of pods having reported.
type allReady struct{}

func (allReady) AddSource(string) {}
func (allReady) AllReady() bool   { return true }

func (o *ourSide) start(running containermap.ContainerMap) error {
	if err := o.moveStateFile(); err != nil {
		return err
	}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(klog.NewContext(context.Background(), quiet))
	set := o.k.scenario.Settings
	manager, err := ourmanager.NewManager(quiet, "static", o.k.options(), time.Hour, o.k.scenario.Machine.Info(), set.ReservedSet(), o.k.reservation(), o.k.dir, o.affinities)
	if err != nil {
		return err
	}
	if err := manager.Start(ctx, o.k.activePods, allReady{}, o.k, o.k, running); err != nil {
		return err
	}
	o.manager = manager
	return nil
}

// moveStateFile gives each start a directory of its own: the loop of the manager
// before may be about to write once more, which in a kubelet that has ended it
// cannot.
func (o *ourSide) moveStateFile() error {
	data, err := os.ReadFile(filepath.Join(o.k.dir, stateFile))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if o.k.dir, err = os.MkdirTemp(o.k.base, "start-"); err != nil || data == nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.k.dir, stateFile), data, 0o600)
}

func (o *ourSide) stop() {
	if o.cancel != nil {
		o.cancel()
	}
}

func (o *ourSide) setAffinity(pod, container string, any bool, nodes uint64) {
	hint := ourtopology.TopologyHint{}
	if !any {
		hint.NUMANodeAffinity = ourbitmask.NewEmptyBitMask()
		for id := range 64 {
			if nodes>>id&1 == 1 {
				_ = hint.NUMANodeAffinity.Add(id)
			}
		}
	}
	o.affinities.hints[[2]string{pod, container}] = hint
}

func ourHints(lists map[string][]ourtopology.TopologyHint) *[]hint {
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

func (o *ourSide) podHints(pod *v1.Pod) *[]hint {
	return ourHints(o.manager.GetPodTopologyHints(quiet, pod, lifecycle.AddOperation))
}

func (o *ourSide) hints(pod *v1.Pod, c *v1.Container) *[]hint {
	return ourHints(o.manager.GetTopologyHints(quiet, pod, c, lifecycle.AddOperation))
}

func (o *ourSide) allocatePod(pod *v1.Pod) error {
	return o.manager.AllocatePod(quiet, pod, lifecycle.AddOperation)
}

func (o *ourSide) allocate(pod *v1.Pod, c *v1.Container) error {
	return o.manager.Allocate(klog.NewContext(context.Background(), quiet), pod, c, lifecycle.AddOperation)
}

func (o *ourSide) addContainer(pod *v1.Pod, c *v1.Container, id string) {
	o.manager.AddContainer(quiet, pod, c, id)
}

func (o *ourSide) snapshot() snapshot {
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

func (o *ourSide) views(pods []*v1.Pod) map[string]string {
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

func (o *ourSide) participant() ourtopology.AdmissionParticipant {
	return o.manager.(ourtopology.AdmissionParticipant)
}

func (o *ourSide) begin(pod string)          { o.participant().BeginAdmission(quiet, pod) }
func (o *ourSide) commit(pod string) error   { return o.participant().CommitAdmission(quiet, pod) }
func (o *ourSide) rollback(pod string) error { return o.participant().RollbackAdmission(quiet, pod) }

// ourStore is the topology manager as our CPU manager sees it.
type ourStore struct {
	k     *kubelet
	hints map[[2]string]ourtopology.TopologyHint
}

func (s ourStore) GetAffinity(_ klog.Logger, pod, container string) ourtopology.TopologyHint {
	return s.hints[[2]string{pod, container}]
}
func (s ourStore) GetPolicy() ourtopology.Policy { return ourPolicy(s.k.scenario.Settings.Policy) }
func (s ourStore) Name() string                  { return s.k.scenario.Settings.Scope }

// ourPolicy is a policy of which only the name counts.
type ourPolicy string

func (p ourPolicy) Name() string { return string(p) }
func (ourPolicy) Merge(klog.Logger, []map[string][]ourtopology.TopologyHint) (ourtopology.TopologyHint, bool) {
	return ourtopology.TopologyHint{}, true
}

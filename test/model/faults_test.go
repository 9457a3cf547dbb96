// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	cpustate "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/test/simnode"
)

// faults are put into the managers one at a time. Most are what is known of the
// kubelet's own managers.
var faults = []struct {
	name string
	// kinds are what it may show as.
	kinds []string
	wrap  func(k simnode.Kubelet, seen *memoryOfFault) simnode.Kubelet
}{
	{"a budget is allocated again after a restart (140989)", []string{"leak", "twice", "invariant", "shared", "counter", "killed", "restart"}, func(k simnode.Kubelet, seen *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), again: seen}
		return k
	}},
	{"memory is counted twice after a restart (140906)", []string{"leak", "memory", "counter", "killed", "restart"}, func(k simnode.Kubelet, seen *memoryOfFault) simnode.Kubelet {
		k.Memory = &faultyMemory{memoryManager: k.Memory.(memoryManager), again: seen}
		return k
	}},
	{"a pod with a container that shares is refused when it is admitted again (141069)", []string{"killed"}, func(k simnode.Kubelet, seen *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), noHints: true}
		return k
	}},
	{"a refused pod leaves its CPUs behind", []string{"refused", "invariant", "leak", "command"}, func(k simnode.Kubelet, _ *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), noRollback: true}
		return k
	}},
	{"pods lose their budgets when the gate is off", []string{"moved", "level", "killed", "invariant"}, func(k simnode.Kubelet, seen *memoryOfFault) simnode.Kubelet {
		if !seen.node.Gate {
			seen.dropBudgets()
		}
		return k
	}},
	{"a container that shares is called exclusive", []string{"level", "invariant"}, func(k simnode.Kubelet, _ *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), sharedIsExclusive: true}
		return k
	}},
	{"memory that cannot be had is not missed", []string{"amount"}, func(k simnode.Kubelet, _ *memoryOfFault) simnode.Kubelet {
		k.Memory = &faultyMemory{memoryManager: k.Memory.(memoryManager), swallows: true}
		return k
	}},
	{"allocations are counted again after a restart", []string{"counter"}, func(k simnode.Kubelet, seen *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), countsAgain: seen}
		return k
	}},
	{"a container that starts again gives its CPUs back", []string{"moved", "invariant"}, func(k simnode.Kubelet, _ *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), forgetsContainers: map[string]string{}}
		return k
	}},
	{"the node shared pool lacks a CPU", []string{"invariant", "file", "shared"}, func(k simnode.Kubelet, _ *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), leaks: true}
		return k
	}},
	{"a resize is admitted whatever it changes", []string{"resize"}, func(k simnode.Kubelet, _ *memoryOfFault) simnode.Kubelet {
		k.CPU = &faultyCPU{cpuManager: k.CPU.(cpuManager), resizes: true}
		return k
	}},
	{"an init container's affinity is forgotten", []string{"moved"}, func(k simnode.Kubelet, _ *memoryOfFault) simnode.Kubelet {
		k.Topology = &forgetfulTopology{Manager: k.Topology, removed: map[string]bool{}}
		return k
	}},
}

// TestFaults puts each fault into the managers: it must be found out, and what shows
// it must become a short script.
func TestFaults(t *testing.T) {
	registerMetrics(t)
	p := player{dir: scratch(t), replays: 200}
	for _, fault := range faults {
		seen := &memoryOfFault{}
		p.prepare = func(n *simnode.Node) {
			*seen = memoryOfFault{node: n}
			n.Wrap = func(k simnode.Kubelet) simnode.Kubelet {
				seen.starts++
				return fault.wrap(k, seen)
			}
		}
		events, done := 0, played{}
		for seed := uint64(1); done.err == nil && events < 20_000; seed++ {
			done = p.play(t, newGenerator(seed, 60).next)
			events += len(done.events)
		}
		require.Errorf(t, done.err, "%s: not found in %d events", fault.name, events)
		small := p.shrink(t, done)
		var v violation
		require.ErrorAs(t, small.err, &v, fault.name)
		require.Containsf(t, fault.kinds, v.kind, "%s: %v\n%s", fault.name, small.err, small.script())
		require.LessOrEqualf(t, len(small.events), 6, "%s: %v\n%s", fault.name, small.err, small.script())
		t.Logf("%s: found after %d events; %d of %d show it: %v", fault.name, events, len(small.events), len(done.events), small.err)

		// It is the fault that shows, and nothing else.
		p.prepare = nil
		require.NoError(t, p.play(t, replay(small.events)).err, fault.name)
	}
}

// TestNoFault checks that the managers of TestFaults have no fault but the one that is
// put into them.
func TestNoFault(t *testing.T) {
	registerMetrics(t)
	p := player{dir: scratch(t), prepare: func(n *simnode.Node) {
		n.Wrap = func(k simnode.Kubelet) simnode.Kubelet {
			k.CPU, k.Memory = &faultyCPU{cpuManager: k.CPU.(cpuManager)}, &faultyMemory{memoryManager: k.Memory.(memoryManager)}
			return k
		}
	}}
	for seed := range uint64(20) {
		require.NoError(t, p.play(t, newGenerator(seed, 60).next).err)
	}
}

// memoryOfFault is what a fault has to know of a node.
type memoryOfFault struct {
	node   *simnode.Node
	starts int
}

// dropBudgets takes the pods' own CPUs out of the state file.
func (m *memoryOfFault) dropBudgets() {
	path := filepath.Join(m.node.Dir, "cpu_manager_state")
	text, err := os.ReadFile(path)
	var checkpoint cpustate.CPUManagerCheckpoint
	if err != nil || checkpoint.UnmarshalCheckpoint(text) != nil {
		return
	}
	checkpoint.CheckpointData.PodEntries = nil
	if text, err = checkpoint.MarshalCheckpoint(); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

// offers is what a manager of ours has beyond the kubelet's interface. One with a
// fault has it, too.
type offers interface {
	topologymanager.AdmissionParticipant
	topologymanager.AdmissionSettler
	topologymanager.AllocationHolder
	topologymanager.PodAllocator
	topologymanager.ResourceReporter
	topologymanager.ResizeGuard
}

type cpuManager interface {
	cpumanager.Manager
	offers
	topologymanager.CPUNodes
}

type memoryManager interface {
	memorymanager.Manager
	offers
}

// faultyCPU is a CPU manager with a fault, or several.
type faultyCPU struct {
	cpuManager
	again, countsAgain                            *memoryOfFault
	noHints, noRollback, sharedIsExclusive, leaks bool
	resizes                                       bool
	forgetsContainers                             map[string]string
}

func (f *faultyCPU) CheckResize(logger klog.Logger, admitted, resized *v1.Pod) error {
	if f.resizes {
		return nil
	}
	return f.cpuManager.CheckResize(logger, admitted, resized)
}

func (f *faultyCPU) AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error {
	if f.again != nil && f.again.starts > 1 && !f.GetPodCPUs(string(pod.UID)).IsEmpty() {
		pod = pod.DeepCopy()
		pod.UID += "-again"
	}
	return f.cpuManager.AllocatePod(logger, pod, operation)
}

func (f *faultyCPU) Allocate(ctx context.Context, pod *v1.Pod, c *v1.Container, operation lifecycle.Operation) error {
	if f.countsAgain != nil && f.countsAgain.starts > 1 {
		kubeletmetrics.ResourceManagerAllocationsTotal.WithLabelValues(kubeletmetrics.ResourceManagerCPU, kubeletmetrics.ResourceManagerNode).Inc()
	}
	return f.cpuManager.Allocate(ctx, pod, c, operation)
}

func (f *faultyCPU) HoldsPod(logger klog.Logger, pod *v1.Pod) (needs, holds bool) {
	needs, holds = f.cpuManager.HoldsPod(logger, pod)
	return needs, holds && !f.noHints
}

func (f *faultyCPU) GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	hints := f.cpuManager.GetPodTopologyHints(logger, pod, operation)
	for c := range simnode.Containers(pod) {
		if f.noHints && !f.GetPodCPUs(string(pod.UID)).IsEmpty() && !guaranteed(c) {
			return map[string][]topologymanager.TopologyHint{"cpu": {}}
		}
	}
	return hints
}

func (f *faultyCPU) RollbackAdmission(logger klog.Logger, podUID string) error {
	if f.noRollback {
		return f.CommitAdmission(logger, podUID)
	}
	return f.cpuManager.RollbackAdmission(logger, podUID)
}

func (f *faultyCPU) GetResourceIsolationLevel(pod *v1.Pod, c *v1.Container) cmqos.ResourceIsolationLevel {
	level := f.cpuManager.GetResourceIsolationLevel(pod, c)
	if f.sharedIsExclusive && level == cmqos.ResourceIsolationPod {
		return cmqos.ResourceIsolationContainer
	}
	return level
}

func (f *faultyCPU) AddContainer(logger klog.Logger, pod *v1.Pod, c *v1.Container, id string) {
	if f.forgetsContainers != nil {
		key := string(pod.UID) + c.Name
		if before, ok := f.forgetsContainers[key]; ok {
			if err := f.RemoveContainer(logger, before); err != nil {
				panic(err)
			}
		}
		f.forgetsContainers[key] = id
	}
	f.cpuManager.AddContainer(logger, pod, c, id)
}

func (f *faultyCPU) State() cpustate.Reader {
	state := f.cpuManager.State()
	if f.leaks && len(state.GetCPUAssignments()) > 1 {
		return leakyState{state}
	}
	return state
}

type leakyState struct{ cpustate.Reader }

func (l leakyState) GetDefaultCPUSet() cpuset.CPUSet {
	cpus := l.Reader.GetDefaultCPUSet().List()
	return cpuset.New(cpus[:len(cpus)-1]...)
}

// faultyMemory is a memory manager with a fault.
type faultyMemory struct {
	memoryManager
	again    *memoryOfFault
	swallows bool
}

func (f *faultyMemory) AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error {
	if f.again != nil && f.again.starts > 1 && len(f.GetPodMemory(string(pod.UID))) > 0 {
		pod = pod.DeepCopy()
		pod.UID += types.UID("-again")
	}
	err := f.memoryManager.AllocatePod(logger, pod, operation)
	if f.swallows {
		return nil
	}
	return err
}

func (f *faultyMemory) Allocate(ctx context.Context, pod *v1.Pod, c *v1.Container, operation lifecycle.Operation) error {
	err := f.memoryManager.Allocate(ctx, pod, c, operation)
	if f.swallows {
		return nil
	}
	return err
}

// forgetfulTopology forgets the affinity of a container of which a later one starts.
type forgetfulTopology struct {
	topologymanager.Manager
	removed map[string]bool
}

func (f *forgetfulTopology) AddContainer(logger klog.Logger, pod *v1.Pod, c *v1.Container, id string) {
	init := pod.Spec.InitContainers
	if i := slices.IndexFunc(init, func(other v1.Container) bool { return other.Name == c.Name }); i != 0 && len(init) > 0 {
		f.removed[string(pod.UID)+init[0].Name] = true
	}
	f.Manager.AddContainer(logger, pod, c, id)
}

func (f *forgetfulTopology) GetAffinity(logger klog.Logger, podUID, container string) topologymanager.TopologyHint {
	if f.removed[podUID+container] {
		return topologymanager.TopologyHint{}
	}
	return f.Manager.GetAffinity(logger, podUID, container)
}

// TestShrinkKeepsTheFailure checks that what is made smaller fails in the same way,
// and the same way each time.
func TestShrinkKeepsTheFailure(t *testing.T) {
	registerMetrics(t)
	fault := faults[5]
	p := player{dir: scratch(t), replays: 200, prepare: func(n *simnode.Node) {
		n.Wrap = func(k simnode.Kubelet) simnode.Kubelet { return fault.wrap(k, nil) }
	}}
	done := played{}
	for seed := uint64(1); done.err == nil; seed++ {
		done = p.play(t, newGenerator(seed, 60).next)
	}
	small := p.shrink(t, done)
	var before, after violation
	require.True(t, errors.As(done.err, &before) && errors.As(small.err, &after))
	require.Equal(t, before.kind, after.kind)
	require.Equal(t, small.events, p.play(t, replay(small.events)).events)
	require.Equal(t, small.script(), p.shrink(t, done).script())
}

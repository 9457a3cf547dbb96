// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	kubeadmission "k8s.io/kubernetes/pkg/kubelet/cm/admission"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// AllocatesPods implements topologymanager.PodAllocator.
func (m *manager) AllocatesPods() bool { return true }

// Allocate implements Manager.
func (m *manager) Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "containerName", container.Name)
	if !m.allocates(operation) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collect(logger, string(pod.UID))
	spec, err := specOf(pod)
	if err != nil {
		return err
	}
	c, ok := spec.Container(container.Name)
	exclusive := ok && len(spec.ExclusiveMemory(c)) > 0
	if exclusive {
		metrics.MemoryManagerPinningRequestTotal.Inc()
	} else {
		logger.V(5).Info("The container gets no memory of its own", "managed", spec.Managed, "guaranteed", c.Guaranteed)
		m.tellIneligible(logger, pod, container.Name)
		if !ok || len(spec.BudgetMemory()) == 0 {
			return nil
		}
		// It may lack its part of a pod that was allocated as a whole, if a
		// kubelet stopped before it had written that.
	}
	affinity := m.affinityOf(logger, spec, container.Name)
	record, err := m.planAtSeen(spec.UID, container.Name, affinity, func(affinity numa.Hint) (memplan.PodRecord, error) {
		return m.host(spec.UID).PlanContainer(spec, container.Name, affinity)
	})
	return m.settle(logger, podRequest{pod: spec}, record, err)
}

// AllocatePod implements Manager.
func (m *manager) AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error {
	logger = klog.LoggerWithValues(logger, "pod", klog.KObj(pod))
	if !m.allocates(operation) {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.collect(logger, string(pod.UID))
	spec, err := specOf(pod)
	if err != nil {
		return err
	}
	if len(spec.PodMemory()) == 0 || len(spec.Containers) == 0 {
		logger.V(5).Info("The pod gets no memory of its own", "managed", spec.Managed)
		m.tellIneligible(logger, pod, "")
		return nil
	}
	metrics.MemoryManagerPinningRequestTotal.Inc()
	affinity := m.affinityOf(logger, spec, spec.Containers[0].Name)
	record, err := m.planAtSeen(spec.UID, "", affinity, func(affinity numa.Hint) (memplan.PodRecord, error) {
		return m.host(spec.UID).PlanPod(spec, affinity, m.near(spec))
	})
	return m.settle(logger, podRequest{pod: spec, whole: true}, record, err)
}

// allocates reports whether there is anything to do at all. Resizing gives and
// takes nothing.
func (m *manager) allocates(operation lifecycle.Operation) bool {
	return m.policy.static() && operation == lifecycle.AddOperation
}

func (m *manager) affinityOf(logger klog.Logger, pod podplan.Pod, container string) numa.Hint {
	hint := topologymanager.HintToNUMA(m.affinity.GetAffinity(logger, pod.UID, container))
	logger.V(4).Info("Affinity", "nodes", hint.Nodes.String(), "any", hint.Any, "preferred", hint.Preferred)
	return hint
}

// near asks the topology manager on which NUMA nodes the CPUs of the pod's
// containers lie. The CPU manager has allocated before. A store that cannot tell
// leaves the memory on the pod's nodes.
func (m *manager) near(pod podplan.Pod) memplan.Near {
	knows, ok := m.affinity.(topologymanager.CPUNodes)
	if !ok {
		return nil
	}
	near := memplan.Near{}
	for _, c := range pod.Containers {
		if nodes, ok := knows.ContainerCPUNodes(pod.UID, c.Name); ok {
			near[c.Name] = nodes
		}
	}
	return near
}

// settle takes what was planned, or turns the refusal into the error for the
// pod's status.
func (m *manager) settle(logger klog.Logger, asked podRequest, record memplan.PodRecord, err error) error {
	uid := asked.pod.UID
	before := m.host(uid).Records().Pod(uid)
	if err == nil {
		if record.Equal(before) {
			logger.V(4).Info("Memory is allocated already", "nodes", record.Nodes().String())
			m.learn(logger, asked.pod)
			return nil
		}
		if err = m.take(asked, record); err == nil {
			logger.V(2).Info("Memory allocated", "nodes", record.Nodes().String(), "pod blocks", len(record.Pod))
			return nil
		}
	}
	asked.countFailure(before)
	if m.runningBefore[uid] {
		topologymanager.CountStateProblem(metrics.ResourceManagerMemory, topologymanager.RunningPodWithout)
		logger.Error(err, "Pod ran before the kubelet started and is admitted without memory of its own",
			"repair", m.remedy)
		return nil
	}
	logger.Error(err, "Cannot allocate memory")
	var empty *podplan.EmptyPoolError
	if errors.As(err, &empty) {
		return kubeadmission.NewEmptyPodSharedPoolError(err)
	}
	return err
}

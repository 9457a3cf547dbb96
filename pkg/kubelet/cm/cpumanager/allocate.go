// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/features"
	cmadmission "k8s.io/kubernetes/pkg/kubelet/cm/admission"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// AllocatesPods implements topologymanager.PodAllocator.
func (m *manager) AllocatesPods() bool { return true }

// readPod reads what the pod asks for.
func readPod(pod *v1.Pod) (podplan.Pod, error) { return readPodIf(pod, podLevel()) }

// readPodIf is readPod with pods that state a budget managed or not.
func readPodIf(pod *v1.Pod, podLevel bool) (podplan.Pod, error) {
	return podplan.FromSpec(pod, podplan.Facts{
		Guaranteed: v1qos.GetPodQOS(pod) == v1.PodQOSGuaranteed,
		PodLevel:   podLevel,
	})
}

// podLevel says whether pods with a budget are managed.
func podLevel() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResources) && podLevelManagers()
}

// podLevelManagers reports whether the gate is on.
func podLevelManagers() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResourceManagers)
}

// Allocate implements Manager.
func (m *manager) Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "podUID", pod.UID, "containerName", container.Name)
	if m.node == nil || operation != lifecycle.AddOperation {
		return nil
	}
	plan, err := readPod(pod)
	if err != nil {
		return err
	}
	wanted, ok := plan.Container(container.Name)
	if !ok {
		return fmt.Errorf("container %q is not part of pod %s", container.Name, plan.Name)
	}
	m.mu.Lock()
	m.confirm(logger, plan)
	m.mu.Unlock()
	if plan.ExclusiveCPUs(wanted) == 0 {
		if _, whole := m.content().GetPodCPUSet(plan.UID); whole && !hasSlice(container) {
			m.sharing.Store(containerKey{plan.UID, container.Name}, true)
		}
		m.tellIneligible(logger, plan, wanted, false)
		if plan.BudgetCPUs() > 0 {
			return m.complete(logger, plan, wanted)
		}
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeStale(logger)
	metrics.CPUManagerPinningRequestsTotal.Inc()
	view := m.view()
	affinity := topologymanager.HintToNUMA(m.affinity.GetAffinity(logger, plan.UID, container.Name))
	record, err := m.node.PlanContainer(view, plan, wanted, affinity)
	if err == nil && record.Equals(view.Record(plan.UID)) {
		m.countWholeCores()
		return nil
	}
	asked := podRequest{plan: plan}
	if err == nil {
		err = m.change(asked, record)
	}
	if err != nil {
		m.countFailure(asked, view.Record(plan.UID))
		return m.refuse(logger, plan.UID, err)
	}
	logger.V(2).Info("Allocated CPUs to a container", "cpus", record.Containers[container.Name], "affinity", affinity.Nodes)
	return nil
}

// complete gives a container that shares its pod's CPUs its entry in the record of
// the pod, if a kubelet stopped before it had written that.
func (m *manager) complete(logger klog.Logger, plan podplan.Pod, wanted podplan.Container) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	view := m.view()
	record, err := m.node.PlanContainer(view, plan, wanted, numa.Hint{Any: true})
	if err == nil && !record.Equals(view.Record(plan.UID)) {
		logger.Info("Completing the CPUs of a pod within what is recorded of it", "before", view.Record(plan.UID), "after", record)
		err = m.change(podRequest{plan: plan}, record)
	}
	if err != nil {
		return m.refuse(logger, plan.UID, err)
	}
	return nil
}

// AllocatePod implements Manager.
func (m *manager) AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error {
	logger = klog.LoggerWithValues(logger, "pod", klog.KObj(pod), "podUID", pod.UID)
	if m.node == nil || operation != lifecycle.AddOperation {
		return nil
	}
	plan, err := readPod(pod)
	if err != nil {
		return err
	}
	for _, c := range plan.Containers {
		if _, found := plan.IneligibleForCPUs(c, true); found {
			m.tellIneligible(klog.LoggerWithValues(logger, "containerName", c.Name), plan, c, true)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirm(logger, plan)
	if plan.BudgetCPUs() == 0 {
		return nil
	}
	m.removeStale(logger)
	view := m.view()
	affinity := m.podAffinity(logger, plan)
	record, err := m.node.PlanPod(view, plan, affinity)
	if err == nil && record.Equals(view.Record(plan.UID)) {
		return nil
	}
	asked := podRequest{plan: plan, whole: true}
	if err == nil {
		err = m.change(asked, record)
	}
	if err != nil {
		m.countFailure(asked, view.Record(plan.UID))
		return m.refuse(logger, plan.UID, err)
	}
	logger.V(2).Info("Allocated CPUs to a pod", "cpus", record, "affinity", affinity.Nodes)
	return nil
}

// podAffinity is the affinity of the pod, which all its containers have.
func (m *manager) podAffinity(logger klog.Logger, plan podplan.Pod) numa.Hint {
	if len(plan.Containers) == 0 {
		return numa.Hint{Any: true}
	}
	return topologymanager.HintToNUMA(m.affinity.GetAffinity(logger, plan.UID, plan.Containers[0].Name))
}

// refuse is the error of a pod that cannot have what it asks for, or none if the
// pod ran before the kubelet started: it goes on in the shared pool.
func (m *manager) refuse(logger klog.Logger, podUID string, err error) error {
	if m.runningBefore[podUID] {
		topologymanager.CountStateProblem(cpuplan.ResourceName, topologymanager.RunningPodWithout)
		logger.Error(err, "Pod ran before the kubelet started and is admitted without exclusive CPUs: it runs in the node shared pool",
			"repair", m.remedy)
		return nil
	}
	logger.Error(err, "Could not allocate CPUs")
	return publicError(err)
}

// publicError gives a refusal the type by which the kubelet names its reason.
func publicError(err error) error {
	var empty *podplan.EmptyPoolError
	var smt *cpuplan.SMTAlignmentError
	switch {
	case errors.As(err, &empty):
		return cmadmission.NewEmptyPodSharedPoolError(err)
	case errors.As(err, &smt):
		return SMTAlignmentError{
			RequestedCPUs: smt.Requested, CpusPerCore: smt.ThreadsPerCore,
			AvailablePhysicalCPUs: smt.Available, CausedByPhysicalCPUs: smt.NotEnough,
			ContainerName: smt.Container,
		}
	}
	return err
}

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

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// admission is the transaction in which a pod is admitted.
type admission struct {
	podUID string
	// open is set until it is committed or rolled back. The pod is not stale
	// meanwhile, even if the kubelet does not list it as active yet.
	open bool
	// before is what the pod held when it began, staged what it is to hold.
	before, staged cpuplan.Record
	// gone are the pods that were found to be stale meanwhile. They are taken
	// out in the same write.
	gone []string
	// count is run when the transaction is committed.
	count []func()
}

// BeginAdmission implements topologymanager.AdmissionParticipant.
func (m *manager) BeginAdmission(_ klog.Logger, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	record := m.committed.Record(podUID)
	m.admission = admission{podUID: podUID, open: true, before: record, staged: record}
}

// CommitAdmission implements topologymanager.AdmissionParticipant.
func (m *manager) CommitAdmission(logger klog.Logger, podUID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isOpen(podUID) {
		return nil
	}
	if err := m.commit(m.view()); err != nil {
		countCommitFailure()
		logger.Error(err, "Could not record the CPUs of a pod", "podUID", podUID)
		if m.admission.staged.Equals(m.admission.before) || m.runningBefore[podUID] {
			// The pod loses nothing that it had.
			m.admission = admission{podUID: podUID, before: m.admission.before}
			return nil
		}
		return err
	}
	for _, count := range m.admission.count {
		count()
	}
	m.admission.open, m.admission.gone, m.admission.count = false, nil, nil
	return nil
}

// RollbackAdmission implements topologymanager.AdmissionParticipant.
func (m *manager) RollbackAdmission(logger klog.Logger, podUID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.admission.podUID != podUID {
		return nil
	}
	before := m.admission.before
	m.admission = admission{}
	if err := m.commit(m.committed.With(podUID, before)); err != nil {
		logger.Error(err, "Could not give back the CPUs of a refused pod", "podUID", podUID)
		return err
	}
	return nil
}

// AllocatesPods implements topologymanager.PodAllocator.
func (m *manager) AllocatesPods() bool { return true }

// HoldsPod implements topologymanager.AllocationHolder. A pod that ran before
// the kubelet started has what it has, on record or not.
func (m *manager) HoldsPod(_ klog.Logger, pod *v1.Pod) (needs, holds bool) {
	if m.node == nil {
		return false, false
	}
	plan, err := readPod(pod)
	if err != nil {
		return true, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.node.HasRecord(m.committed, plan) || m.runningBefore[plan.UID] {
		return true, true
	}
	needs = plan.BudgetCPUs() > 0
	for _, c := range plan.Containers {
		needs = needs || plan.ExclusiveCPUs(c) > 0
	}
	return needs, false
}

func (m *manager) isOpen(podUID string) bool {
	return m.admission.open && m.admission.podUID == podUID
}

// view is what is committed and staged.
func (m *manager) view() cpuplan.State {
	if !m.admission.open {
		return m.committed
	}
	view := m.committed
	for _, uid := range m.admission.gone {
		view = view.Without(uid)
	}
	return view.With(m.admission.podUID, m.admission.staged)
}

// change stages the pod's record in the open transaction or, without one,
// commits it. The counts are of what has really happened.
func (m *manager) change(podUID string, record cpuplan.Record, count func()) error {
	if m.isOpen(podUID) {
		m.admission.staged = record
		m.admission.count = append(m.admission.count, count)
		return nil
	}
	if err := m.commit(m.committed.With(podUID, record)); err != nil {
		return err
	}
	count()
	return nil
}

// readPod reads what the pod asks for.
func readPod(pod *v1.Pod) (podplan.Pod, error) {
	return podplan.FromSpec(pod, podplan.Facts{
		Guaranteed: v1qos.GetPodQOS(pod) == v1.PodQOSGuaranteed,
		PodLevel: utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResources) &&
			utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResourceManagers),
	})
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
	if plan.ExclusiveCPUs(wanted) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeStale(logger)
	counts := containerCounts{m: m, plan: plan, container: wanted}
	counts.requested()
	view := m.view()
	affinity := topologymanager.HintToNUMA(m.affinity.GetAffinity(logger, plan.UID, container.Name))
	record, err := m.node.PlanContainer(view, plan, wanted, affinity)
	if err == nil && record.Equals(view.Record(plan.UID)) {
		counts.kept()
		return nil
	}
	if err == nil {
		err = m.change(plan.UID, record, func() { counts.allocated(record) })
	}
	if err != nil {
		counts.failed()
		return m.refuse(logger, plan.UID, err)
	}
	logger.V(2).Info("Allocated CPUs to a container", "cpus", record.Containers[container.Name], "affinity", affinity.Nodes)
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
	if plan.BudgetCPUs() == 0 {
		warnNothingExclusive(logger, plan)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeStale(logger)
	counts := podCounts{m: m, plan: plan}
	view := m.view()
	affinity := m.podAffinity(logger, plan)
	record, err := m.node.PlanPod(view, plan, affinity)
	if err == nil && record.Equals(view.Record(plan.UID)) {
		return nil
	}
	if err == nil {
		err = m.change(plan.UID, record, func() { counts.allocated(record) })
	}
	if err != nil {
		counts.failed()
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

// warnNothingExclusive tells that containers which ask for CPUs of their own
// get none because the pod budget is not a whole number.
func warnNothingExclusive(logger klog.Logger, plan podplan.Pod) {
	if plan.Budget == nil {
		return
	}
	for _, c := range plan.Containers {
		if count := plan.ExclusiveCPUs(c); count > 0 {
			logger.Info("Warning: container gets no exclusive CPUs, since the pod budget is not a whole number of CPUs",
				"containerName", c.Name, "requested", count, "budgetMilliCPU", plan.Budget.MilliCPU)
		}
	}
}

// GetTopologyHints implements Manager.
func (m *manager) GetTopologyHints(logger klog.Logger, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.hints(logger, pod, operation, func(s cpuplan.State, plan podplan.Pod) (numa.Resource, bool) {
		wanted, _ := plan.Container(container.Name)
		return m.node.ContainerHints(s, plan, wanted)
	})
}

// GetPodTopologyHints implements Manager.
func (m *manager) GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return m.hints(logger, pod, operation, func(s cpuplan.State, plan podplan.Pod) (numa.Resource, bool) {
		return m.node.PodHints(s, plan)
	})
}

func (m *manager) hints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation, hints func(cpuplan.State, podplan.Pod) (numa.Resource, bool)) map[string][]topologymanager.TopologyHint {
	if m.node == nil || operation != lifecycle.AddOperation {
		return nil
	}
	plan, err := readPod(pod)
	if err != nil {
		// Allocating says what is wrong; here it cannot be had.
		return map[string][]topologymanager.TopologyHint{cpuplan.ResourceName: {}}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeStale(logger)
	resource, ok := hints(m.view(), plan)
	if !ok {
		return nil
	}
	list := make([]topologymanager.TopologyHint, len(resource.Hints))
	for i, hint := range resource.Hints {
		list[i] = topologymanager.HintFromNUMA(hint)
	}
	return map[string][]topologymanager.TopologyHint{cpuplan.ResourceName: list}
}

// ExplainHints implements topologymanager.Explainer.
func (m *manager) ExplainHints(_ klog.Logger, pod *v1.Pod, container *v1.Container) string {
	if m.node == nil {
		return ""
	}
	plan, err := readPod(pod)
	if err != nil {
		return err.Error()
	}
	var wanted *podplan.Container
	if container != nil {
		if c, ok := plan.Container(container.Name); ok {
			wanted = &c
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node.Explain(m.view(), plan, wanted)
}

// refuse is the error of a pod that cannot have what it asks for, or none if the
// pod ran before the kubelet started: it goes on in the shared pool.
func (m *manager) refuse(logger klog.Logger, podUID string, err error) error {
	if m.runningBefore[podUID] {
		logger.Error(err, "Pod ran before the kubelet started and is admitted without exclusive CPUs")
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

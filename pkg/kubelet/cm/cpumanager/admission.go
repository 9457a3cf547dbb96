// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
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
	// asked is what the pod was given staged for. It is counted when nothing
	// undoes it any more, and so are the containers that get nothing.
	asked      podRequest
	ineligible []ineligible
}

// podRequest is what a pod asks for, and whether as a whole.
type podRequest struct {
	plan  podplan.Pod
	whole bool
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
		logger.Error(err, "Could not record the CPUs of a pod", "podUID", podUID)
		unchanged := m.admission.staged.Equals(m.admission.before)
		if !unchanged {
			m.countFailure(m.admission.asked, m.admission.before)
		}
		if unchanged || m.runningBefore[podUID] {
			// The pod loses nothing that it had.
			m.admission = admission{podUID: podUID, before: m.admission.before, staged: m.admission.before, ineligible: m.admission.ineligible}
			return nil
		}
		return err
	}
	m.admission.open, m.admission.gone = false, nil
	return nil
}

// SettleAdmission implements topologymanager.AdmissionSettler.
func (m *manager) SettleAdmission(_ klog.Logger, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.admission
	if a.podUID != podUID || a.open {
		return
	}
	m.countAllocated(a.asked, a.before, a.staged)
	for _, i := range a.ineligible {
		i.tell()
	}
	m.admission = admission{}
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

// LacksPod implements topologymanager.AllocationDropper.
func (m *manager) LacksPod(_ klog.Logger, podUID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view().Record(podUID).IsEmpty()
}

// DropPod implements topologymanager.AllocationDropper.
func (m *manager) DropPod(logger klog.Logger, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	started := m.runningBefore[podUID]
	m.containerMap.Visit(func(uid, _, _ string) { started = started || uid == podUID })
	if started || !m.isOpen(podUID) || m.admission.staged.IsEmpty() {
		return
	}
	logger.Info("A pod has CPUs on record, but not all else that it needs, and has not started: it is placed anew", "podUID", podUID, "cpus", m.admission.staged)
	m.admission.staged = cpuplan.Record{}
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
// commits and counts it.
func (m *manager) change(asked podRequest, record cpuplan.Record) error {
	podUID := asked.plan.UID
	if m.isOpen(podUID) {
		m.admission.staged, m.admission.asked = record, asked
		return nil
	}
	before := m.committed.Record(podUID)
	if err := m.commit(m.committed.With(podUID, record)); err != nil {
		return err
	}
	m.countAllocated(asked, before, record)
	return nil
}

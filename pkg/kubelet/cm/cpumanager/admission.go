// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
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

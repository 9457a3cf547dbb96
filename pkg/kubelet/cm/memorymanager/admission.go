// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// admission is the transaction of one pod. While it is open, what the pod takes
// and which pods are gone is only noted; when it is committed, both are written
// at once. It is kept after that, so that it can still be rolled back.
//
// It notes changes rather than new records, because other pods go on changing
// theirs meanwhile: containers of theirs start and end.
type admission struct {
	podUID string
	open   bool
	// before is what was recorded of the pod when the admission began.
	before memplan.PodRecord
	// taken is what the pod is to have; nil as long as that does not change.
	taken *memplan.PodRecord
	// active are the pods that are to keep what they have; nil means all.
	active activeSet
	// asked is what the pod was given taken for. It is counted when nothing
	// undoes it any more, and so are the containers that get nothing.
	asked      podRequest
	ineligible []ineligible
}

// apply returns the records with the noted changes.
func (a *admission) apply(records memplan.Records) memplan.Records {
	if a.active != nil {
		records, _ = records.Keep(a.active.keeps)
	}
	if a.taken != nil {
		records = records.With(a.podUID, *a.taken)
	}
	return records
}

// transaction returns the open admission of the pod, nil when there is none.
func (m *manager) transaction(podUID string) *admission {
	if m.admission != nil && m.admission.open && m.admission.podUID == podUID {
		return m.admission
	}
	return nil
}

// host is what a plan for the pod starts from.
func (m *manager) host(podUID string) memplan.Host {
	published := m.published()
	if a := m.transaction(podUID); a != nil && (a.active != nil || a.taken != nil) {
		return memplan.NewHost(published.Machine(), a.apply(published.Records()))
	}
	return published
}

// take gives the pod the record: at once, or with the open admission.
func (m *manager) take(asked podRequest, record memplan.PodRecord) error {
	uid := asked.pod.UID
	if a := m.transaction(uid); a != nil {
		a.taken, a.asked = &record, asked
		return nil
	}
	before := m.published().Records().Pod(uid)
	if err := m.replace(m.published().Records().With(uid, record)); err != nil {
		return err
	}
	asked.countAllocated(before, record)
	return nil
}

// BeginAdmission implements topologymanager.AdmissionParticipant.
func (m *manager) BeginAdmission(_ klog.Logger, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admission = &admission{podUID: podUID, open: true, before: m.published().Records().Pod(podUID)}
}

// CommitAdmission implements topologymanager.AdmissionParticipant.
func (m *manager) CommitAdmission(logger klog.Logger, podUID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.transaction(podUID)
	if a == nil {
		return nil
	}
	a.open = false
	if a.taken == nil && a.active == nil {
		return nil
	}
	if err := m.replace(a.apply(m.published().Records())); err != nil {
		if a.taken != nil {
			a.asked.countFailure(a.before)
		}
		if a.taken == nil || m.runningBefore[podUID] {
			// Nothing that the pod needs was lost.
			logger.Error(err, "Pod is admitted, but the memory manager's state is not up to date", "podUID", podUID)
			a.taken = nil
			return nil
		}
		return err
	}
	return nil
}

// SettleAdmission implements topologymanager.AdmissionSettler.
func (m *manager) SettleAdmission(_ klog.Logger, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.admission
	if a == nil || a.podUID != podUID || a.open {
		return
	}
	if a.taken != nil {
		a.asked.countAllocated(a.before, *a.taken)
	}
	for _, i := range a.ineligible {
		i.tell()
	}
	m.admission = nil
}

// RollbackAdmission implements topologymanager.AdmissionParticipant.
func (m *manager) RollbackAdmission(_ klog.Logger, podUID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.admission
	if a == nil || a.podUID != podUID {
		return nil
	}
	m.admission = nil
	records := m.published().Records()
	if a.open || a.taken == nil {
		return nil
	}
	// Nothing is written if the file has the records of before.
	return m.replace(records.With(podUID, a.before))
}

// HoldsPod implements topologymanager.AllocationHolder. A pod that ran before
// the kubelet started has what it has, on record or not.
func (m *manager) HoldsPod(_ klog.Logger, pod *v1.Pod) (needs, holds bool) {
	if !m.policy.static() {
		return false, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, err := specOf(pod)
	if err != nil {
		return true, false
	}
	if m.published().Holds(asked) || m.runningBefore[asked.UID] {
		return true, true
	}
	return asked.NeedsMemory(m.affinity.Name() == topologymanager.PodTopologyScope), false
}

// LacksPod implements topologymanager.AllocationDropper.
func (m *manager) LacksPod(_ klog.Logger, podUID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.host(podUID).Records().Pod(podUID).IsEmpty()
}

// DropPod implements topologymanager.AllocationDropper.
func (m *manager) DropPod(logger klog.Logger, podUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.transaction(podUID)
	if a == nil || a.before.IsEmpty() || m.runningBefore[podUID] {
		return
	}
	for _, ref := range m.containers {
		if ref.podUID == podUID {
			return
		}
	}
	logger.Info("A pod has memory on record, but not all else that it needs, and has not started: it is placed anew", "podUID", podUID, "numaNodes", a.before.Nodes().String())
	a.taken = &memplan.PodRecord{}
}

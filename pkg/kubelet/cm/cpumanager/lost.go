// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/running"
	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// A state file that is damaged or gone does not keep the kubelet down, and no pod
// that runs fails for it. If nothing runs, nothing is to be restored. Otherwise
// there is what the damaged file has still; the CPUs on which the runtime says
// that containers run; and, when such a pod is admitted again, the hints of the
// memory manager, which has the pod in a file of its own. A pod of which nothing
// can be known is given what fits, and goes on in the node shared pool otherwise.

// loss is what restore has to make up for.
type loss struct {
	// damaged is set for a file that cannot be read as it is, missing if there is
	// none.
	damaged, missing bool
	// runs are the containers that run, if anything is lost.
	runs running.Pods
}

// afresh reports whether nothing runs that a damaged file could tell about.
func (l loss) afresh() bool { return l.damaged && len(l.runs) == 0 }

// bound reports whether containers are to be released under the none policy
// because of what is lost.
func (l loss) bound(all cpuset.CPUSet) bool {
	if l.damaged {
		return true
	}
	for _, containers := range l.runs {
		for _, b := range containers {
			if !b.CPUs.IsEmpty() && !all.IsSubsetOf(b.CPUs) {
				return true
			}
		}
	}
	return false
}

// assess tells what Open has found, and asks what runs if that is not all.
func (m *manager) assess(ctx context.Context, logger klog.Logger, store *state.Store, err error) loss {
	l := loss{damaged: err != nil, missing: store.Missing()}
	if !l.damaged && !l.missing {
		return l
	}
	l.runs = running.Ask(ctx, m.runtime, m.containerMap)
	if !l.damaged {
		if len(l.runs) > 0 {
			logger.Info("There is no state file of the CPU manager, but containers run", "pods", len(l.runs))
		}
		return l
	}
	topologymanager.CountStateProblem(cpuplan.ResourceName, topologymanager.DamagedFile)
	repair := ""
	if damage := (*statefile.Damage)(nil); errors.As(err, &damage) {
		repair = damage.RepairCommand()
		m.remedy += ", or if its record was lost with the damaged file: " + repair
	}
	if l.afresh() {
		logger.Error(err, "The CPU manager begins afresh: no container runs", "repair", repair)
	} else {
		logger.Error(err, "The CPU manager goes on with what can be read and with what the runtime says of the containers that run",
			"runningPods", len(l.runs), "repair", repair)
	}
	return l
}

// observed adds what pods that have lost their record were seen to run on.
func (m *manager) observed(logger klog.Logger, restored cpuplan.State, l loss) cpuplan.State {
	if len(l.runs) == 0 {
		return restored
	}
	seen := make(map[string]map[string]cpuplan.Set, len(l.runs))
	for uid, containers := range l.runs {
		seen[uid] = make(map[string]cpuplan.Set, len(containers))
		for name, b := range containers {
			seen[uid][name] = toPlan(b.CPUs)
		}
	}
	next := m.node.Observed(restored, seen)
	for _, uid := range next.PodUIDs() {
		if restored.Record(uid).IsEmpty() {
			m.unconfirmed[uid] = true
			logger.Info("A pod has the CPUs on which its containers run, until it is admitted again", "podUID", uid, "cpus", next.Record(uid))
		}
	}
	return next
}

// confirm holds the record of a pod that was made of what its containers run on
// against what the pod asks for, once. The caller holds the lock.
func (m *manager) confirm(logger klog.Logger, plan podplan.Pod) {
	if !m.unconfirmed[plan.UID] {
		return
	}
	delete(m.unconfirmed, plan.UID)
	guess := m.view().Record(plan.UID)
	record := cpuplan.Confirmed(plan, guess, m.affinity.Name() == topologymanager.PodTopologyScope)
	if record.Equals(guess) {
		return
	}
	logger.Info("A pod does not have all CPUs of its own on which its containers run", "podUID", plan.UID, "seen", guess, "own", record)
	if m.isOpen(plan.UID) {
		m.admission.staged = record
		return
	}
	if err := m.commit(m.committed.With(plan.UID, record)); err != nil {
		logger.Error(err, "Could not record the CPUs of a pod", "podUID", plan.UID)
	}
}

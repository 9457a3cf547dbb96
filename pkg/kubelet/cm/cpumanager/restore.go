// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// restore reads the state file. The assignments in it are the truth and the
// shared pool follows from them and the machine of today, so that CPUs that
// were added or taken into the reservation since need no care. What is not in it
// because it is damaged or gone, the runtime is asked for; see lost.go. The
// kubelet starts in any case.
func (m *manager) restore(ctx context.Context, logger klog.Logger) {
	store, err := state.Open(logger, m.stateDir, stateFileName, string(m.policy), m.containerMap.GetContainerRef)
	l := m.assess(ctx, logger, store, err)
	if m.node == nil {
		m.beginRelease(logger, store, l)
		m.store.Store(store)
		return
	}
	restored := store.Content()
	if l.afresh() {
		restored = &state.Content{}
	}
	records := map[string]cpuplan.Record{}
	for uid, containers := range restored.Assignments {
		r := cpuplan.Record{Containers: make(map[string]cpuplan.Set, len(containers))}
		for name, cpus := range containers {
			// A container without CPUs would run on those of all others.
			if cpus.IsEmpty() {
				logger.Error(nil, "Ignoring a container that has no CPUs, according to the state file", "podUID", uid, "containerName", name)
				continue
			}
			r.Containers[name] = toPlan(cpus)
		}
		records[uid] = r
	}
	for uid, entry := range restored.Pods {
		r := records[uid]
		r.Pod = toPlan(entry.CPUSet)
		records[uid] = r
	}
	for uid, r := range records {
		if repaired := r.Repaired(); !repaired.Equals(r) {
			logger.Error(nil, "The state file has a pod with containers outside of its CPUs; what these have counts", "podUID", uid, "recorded", r, "taken", repaired)
			records[uid] = repaired
		}
	}
	m.dropOffline(logger, records)
	m.dropDoubled(logger, records)
	m.committed = m.observed(logger, cpuplan.NewState(records), l)
	m.logOddities(logger)
	content := m.contentOf(m.committed)
	if err := store.Replace(content); err != nil {
		// It is tried again with each round of the reconcile loop; an allocation
		// that cannot be written fails.
		logger.Error(err, "Could not bring the CPU manager's state file up to date")
		store.PublishUnwritten(content)
	}
	m.store.Store(store)
	m.setGauges()
}

// dropOffline takes CPUs that the machine does not have any more out of what pods
// hold. A pod whose containers may run keeps the others: these are its own still,
// and another pod must not get them. A pod that runs nothing is allocated anew
// when it is admitted again.
func (m *manager) dropOffline(logger klog.Logger, records map[string]cpuplan.Record) {
	online := m.node.Topology().All()
	for uid, r := range records {
		held := r.CPUs()
		missing := held.Difference(online)
		if missing.IsEmpty() {
			continue
		}
		if !m.runningBefore[uid] {
			logger.Error(nil, "Dropping the CPUs of a pod that does not run: the machine has some of them no more",
				"podUID", uid, "cpus", held, "missing", missing, "online", online)
			delete(records, uid)
			continue
		}
		logger.Error(nil, "A running pod has fewer CPUs than it was given: the machine has some of them no more",
			"podUID", uid, "cpus", held, "missing", missing, "online", online)
		records[uid] = r.Only(online)
	}
}

// dropDoubled undoes pods that do not run and hold CPUs that another pod holds,
// too, according to the file. They are allocated anew when they are admitted
// again. Pods that run keep what they have.
func (m *manager) dropDoubled(logger klog.Logger, records map[string]cpuplan.Record) {
	count := map[int]int{}
	for _, r := range records {
		for _, cpu := range r.CPUs().List() {
			count[cpu]++
		}
	}
	for uid, r := range records {
		held := r.CPUs().List()
		if m.runningBefore[uid] || !slices.ContainsFunc(held, func(cpu int) bool { return count[cpu] > 1 }) {
			continue
		}
		logger.Error(nil, "Dropping the CPUs of a pod that does not run: another pod has some of them, too", "podUID", uid, "cpus", r.CPUs())
		delete(records, uid)
	}
}

// logOddities tells what is wrong with the restored state and yet kept, because
// the pods may run.
func (m *manager) logOddities(logger klog.Logger) {
	if m.node.SharesReserved(m.committed) {
		logger.Error(nil, "Pods hold all CPUs that are not reserved: containers without CPUs of their own run on the reserved ones",
			"reserved", m.node.Reserved(), "held", m.committed.Assigned())
	}
	var seen cpuplan.Set
	for _, uid := range m.committed.PodUIDs() {
		cpus := m.committed.Record(uid).CPUs()
		if twice := cpus.Intersection(seen); !twice.IsEmpty() {
			logger.Error(nil, "Two pods hold the same CPUs, according to the state file", "podUID", uid, "cpus", twice)
		}
		seen = seen.Union(cpus)
	}
}

// content is what is published, or an empty content before Start.
func (m *manager) content() *state.Content {
	store := m.store.Load()
	if store == nil {
		return &state.Content{}
	}
	return store.Content()
}

// contentOf is the state as it is written and published.
func (m *manager) contentOf(s cpuplan.State) *state.Content {
	content := &state.Content{
		Assignments:  state.ContainerCPUAssignments{},
		Pods:         state.PodCPUAssignments{},
		Default:      fromPlan(m.node.Shared(s)),
		HasBaselines: utilfeature.DefaultFeatureGate.Enabled(features.InPlacePodVerticalScalingExclusiveCPUs),
	}
	for _, uid := range s.PodUIDs() {
		r := s.Record(uid)
		if !r.Pod.IsEmpty() {
			content.Pods[uid] = state.PodEntry{CPUSet: fromPlan(r.Pod)}
		}
		if len(r.Containers) > 0 {
			content.Assignments[uid] = make(map[string]cpuset.CPUSet, len(r.Containers))
			for name, cpus := range r.Containers {
				content.Assignments[uid][name] = fromPlan(cpus)
			}
		}
	}
	return content
}

// commit makes the state durable, publishes it, and then goes by it. On an
// error nothing has changed.
func (m *manager) commit(next cpuplan.State) error {
	// Under the none policy nothing is ever given out; what the file lists then
	// is still to be released.
	store := m.store.Load()
	if store == nil || m.node == nil || next.Equals(m.committed) && !store.Unsure() {
		return nil
	}
	if err := store.Replace(m.contentOf(next)); err != nil {
		return err
	}
	m.committed = next
	m.setGauges()
	// Containers in the shared pool are to leave CPUs that are exclusive now,
	// in the background: whoever admits a pod does not wait for that.
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return nil
}

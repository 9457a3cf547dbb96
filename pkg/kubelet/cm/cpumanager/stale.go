// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// removeStale takes back what pods hold that are not active any more, in one
// write, which is that of the open admission if there is one. The caller holds
// the lock: a pod that is admitted while the list of active pods is being read
// would otherwise look stale.
func (m *manager) removeStale(logger klog.Logger) {
	// Before all sources have reported, a pod that is missing may still come.
	if m.store.Load() == nil || !m.sourcesReady.AllReady() {
		return
	}
	m.dropStale(logger, m.activePods())
}

// dropStale is removeStale for a list of active pods that was read under the
// lock.
func (m *manager) dropStale(logger klog.Logger, pods []*v1.Pod) {
	active := podUIDs(pods)
	if m.admission.open {
		active[m.admission.podUID] = true
	}
	m.forgetContainers(active)
	next := m.committed
	var gone []string
	for _, uid := range m.committed.PodUIDs() {
		if !active[uid] {
			logger.V(2).Info("Releasing the CPUs of a pod that is gone", "podUID", uid, "cpus", m.committed.Record(uid).CPUs())
			gone = append(gone, uid)
			next = next.Without(uid)
		}
	}
	if m.admission.open {
		m.admission.gone = gone
		return
	}
	if err := m.commit(next); err != nil {
		logger.Error(err, "Could not bring the CPU manager's state file up to date; CPUs of pods that are gone stay taken until it succeeds", "podUIDs", gone)
	}
}

// forgetContainers drops what is kept of the containers of other pods.
func (m *manager) forgetContainers(active map[string]bool) {
	var gone []string
	m.containerMap.Visit(func(podUID, _, containerID string) {
		if !active[podUID] {
			gone = append(gone, containerID)
		}
	})
	for _, id := range gone {
		m.containerMap.RemoveByContainerID(id)
	}
	m.updater.keepPods(active)
	m.sharing.Range(func(key, _ any) bool {
		if !active[key.(containerKey).podUID] {
			m.sharing.Delete(key)
		}
		return true
	})
	maps.DeleteFunc(m.runningBefore, func(uid string, _ bool) bool { return !active[uid] })
	maps.DeleteFunc(m.unconfirmed, func(uid string, _ bool) bool { return !active[uid] })
}

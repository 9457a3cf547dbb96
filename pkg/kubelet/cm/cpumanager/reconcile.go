// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// reconcileLoop reconciles once a period, and moves containers off CPUs as soon
// as these have become exclusive.
func (m *manager) reconcileLoop(ctx context.Context) {
	ticker := time.NewTicker(m.period())
	defer ticker.Stop()
	m.Reconcile(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			m.Reconcile(ctx)
		case <-m.wake:
			m.updater.evict()
		}
	}
}

// Reconcile has every running container brought onto the CPUs that are recorded
// for it. It learns from pod statuses which containers run and have ended, as far
// as that is not known already. The calls of the runtime are made later, in the
// background. It is exported for benchmarks; nothing else has to call it.
func (m *manager) Reconcile(ctx context.Context) {
	logger := klog.FromContext(ctx)
	m.mu.Lock()
	ready := m.sourcesReady.AllReady()
	// Under the lock: see removeStale.
	pods := m.activePods()
	if ready {
		m.dropStale(logger, pods)
	}
	m.mu.Unlock()
	m.observe(logger, pods)
	m.updater.settle(inPods(pods, ready))
}

// inPods reports which containers to bring in line: until all sources have told
// of their pods, the containers of pods of which it is not known yet whether they
// are to go on are left alone.
func inPods(pods []*v1.Pod, ready bool) func(podUID string) bool {
	if ready {
		return func(string) bool { return true }
	}
	active := podUIDs(pods)
	return func(uid string) bool { return active[uid] }
}

func podUIDs(pods []*v1.Pod) map[string]bool {
	uids := make(map[string]bool, len(pods))
	for _, pod := range pods {
		uids[string(pod.UID)] = true
	}
	return uids
}

// observe reads the pods' statuses and reports whether each pod had one.
func (m *manager) observe(logger klog.Logger, pods []*v1.Pod) (all bool) {
	all = true
	for _, pod := range pods {
		status, ok := m.podStatus.GetPodStatus(pod.UID)
		if !ok {
			logger.V(5).Info("Pod has no status yet", "pod", klog.KObj(pod))
			all = false
			continue
		}
		for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
			for i := range list {
				m.observeContainer(logger, pod, &list[i])
			}
		}
	}
	return all
}

func (m *manager) observeContainer(logger klog.Logger, pod *v1.Pod, status *v1.ContainerStatus) {
	// The container before this one, and then this one.
	for _, state := range []*v1.ContainerState{&status.LastTerminationState, &status.State} {
		if state.Terminated != nil && state.Terminated.ContainerID != "" {
			m.updater.ended(idOf(state.Terminated.ContainerID))
		}
	}
	if status.ContainerID == "" {
		return
	}
	id := idOf(status.ContainerID)
	switch {
	case id == "":
		logger.V(4).Info("Container has no usable ID", "pod", klog.KObj(pod), "containerName", status.Name, "containerID", status.ContainerID)
	case status.State.Terminated != nil:
		m.updater.ended(id)
	case status.State.Running != nil:
		m.updater.observe(containerKey{string(pod.UID), status.Name}, id)
	}
}

// idOf is the runtime's ID in a text such as containerd://ID, or empty.
func idOf(text string) string {
	_, id, _ := strings.Cut(strings.Trim(text, `"`), "://")
	return id
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/utils/cpuset"
)

// appliedCPUs is the cpuset that the runtime accepted for a container. A
// container that was started again has another ID and nothing applied.
type appliedCPUs struct {
	containerID string
	cpus        cpuset.CPUSet
}

// reconcileLoop reconciles once a period, and at once when CPUs have become
// exclusive or are so no more.
func (m *manager) reconcileLoop(ctx context.Context) {
	ticker := time.NewTicker(m.reconcilePeriod)
	defer ticker.Stop()
	for {
		m.reconcile(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-m.wake:
		}
	}
}

// reconcile brings every running container onto the CPUs that are recorded for
// it. What fails is tried again in the next round.
func (m *manager) reconcile(ctx context.Context) {
	logger := klog.FromContext(ctx)
	m.mu.Lock()
	m.removeStale(logger)
	m.mu.Unlock()
	for _, pod := range m.activePods() {
		podStatus, ok := m.podStatus.GetPodStatus(pod.UID)
		if !ok {
			continue
		}
		for _, statuses := range [][]v1.ContainerStatus{podStatus.InitContainerStatuses, podStatus.ContainerStatuses} {
			for i := range statuses {
				if statuses[i].State.Running != nil {
					m.reconcileContainer(ctx, pod, &statuses[i])
				}
			}
		}
	}
}

func (m *manager) reconcileContainer(ctx context.Context, pod *v1.Pod, status *v1.ContainerStatus) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "containerName", status.Name)
	var id kubecontainer.ContainerID
	if err := id.ParseString(status.ContainerID); err != nil {
		logger.V(4).Info("Container has no usable ID yet", "err", err)
		return
	}
	key := containerKey{string(pod.UID), status.Name}
	m.mu.Lock()
	m.containerMap.Add(key.podUID, key.name, id.ID)
	want := appliedCPUs{id.ID, m.content().GetCPUSetOrDefault(key.podUID, key.name)}
	have := m.applied[key]
	m.mu.Unlock()
	if want.cpus.IsEmpty() || have.containerID == want.containerID && have.cpus.Equals(want.cpus) {
		return
	}
	if err := m.updateContainerCPUSet(ctx, want.containerID, want.cpus); err != nil {
		logger.Error(err, "Could not update the cpuset of a container", "containerID", id.ID, "cpus", want.cpus.String())
		return
	}
	logger.V(4).Info("Updated the cpuset of a container", "containerID", id.ID, "cpus", want.cpus.String())
	m.mu.Lock()
	defer m.mu.Unlock()
	// The pod may be gone meanwhile, and with it the place to keep this.
	if _, _, err := m.containerMap.GetContainerRef(id.ID); err == nil {
		m.applied[key] = want
	}
}

// removeStale takes back what pods hold that are not active any more, in one
// write, which is that of the open admission if there is one. The caller holds
// the lock: a pod that is admitted while the list of active pods is being read
// would otherwise look stale.
func (m *manager) removeStale(logger klog.Logger) {
	// Before all sources have reported, a pod that is missing may still come.
	if m.store.Load() == nil || !m.sourcesReady.AllReady() {
		return
	}
	active := map[string]bool{}
	if m.admission.open {
		active[m.admission.podUID] = true
	}
	for _, pod := range m.activePods() {
		active[string(pod.UID)] = true
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
		logger.Error(err, "Could not release the CPUs of pods that are gone; they stay taken until it succeeds")
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
	maps.DeleteFunc(m.applied, func(key containerKey, _ appliedCPUs) bool { return !active[key.podUID] })
	m.sharing.Range(func(key, _ any) bool {
		if !active[key.(containerKey).podUID] {
			m.sharing.Delete(key)
		}
		return true
	})
	maps.DeleteFunc(m.runningBefore, func(uid string, _ bool) bool { return !active[uid] })
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"runtime"
	"time"

	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
)

// Under the none policy no container has CPUs of its own. When the policy was
// static before, containers run that are bound to CPUs: to their own, or to the
// shared pool without those. They are released to all CPUs, in the background.
//
// Until every one is released, the state file goes on to list what they had,
// under the name of the new policy, so that a kubelet that starts again
// meanwhile goes on where this one ended. Readers see none of it. A kubelet with
// the static policy that finds such a list takes it for what the pods hold: that
// is as if the policy had never been changed.

// beginRelease restores the state for the none policy. While a damaged file is
// not read whole, it stays in place until all containers are released: nothing
// else tells the next start of the kubelet that some are to be.
func (m *manager) beginRelease(logger klog.Logger, store *state.Store, l loss) {
	restored := store.Content()
	nothing := &state.Content{}
	var err error
	switch {
	case l.afresh() || !m.confines(restored) && !l.bound(m.allCPUs):
		err = store.Replace(nothing)
	case runtime.GOOS == "windows":
		logger.Error(nil, "Containers that are bound to CPUs keep to them until they end: releasing them is not supported on Windows yet")
		err = store.Replace(nothing)
	default:
		logger.Info("Releasing containers that were bound to CPUs by another policy", "pods", len(restored.Assignments), "sharedPool", restored.Default.String())
		m.releasing.Store(true)
		if !l.damaged && m.confines(restored) {
			err = store.Write(restored)
		}
	}
	if err != nil {
		// The next start of the kubelet finds what this one has found.
		logger.Error(err, "Could not bring the CPU manager's state file up to date")
	}
	store.Publish(nothing)
}

// confines reports whether containers may run that are bound to CPUs, according
// to the file.
func (m *manager) confines(c *state.Content) bool {
	return len(c.Assignments) > 0 || len(c.Pods) > 0 || !c.Default.IsEmpty() && !m.allCPUs.IsSubsetOf(c.Default)
}

// addReleased tells of a container that is created under the none policy, with
// all CPUs.
func (m *manager) addReleased(key containerKey, id string) {
	if m.releasing.Load() {
		m.updater.answered(key, m.updater.all)
		m.updater.add(key, id)
		m.updater.letStart(id)
	}
}

// releaseLoop ends when all containers are released.
func (m *manager) releaseLoop(ctx context.Context) {
	ticker := time.NewTicker(m.period())
	defer ticker.Stop()
	for !m.release(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// defaultReconcilePeriod is the kubelet's.
const defaultReconcilePeriod = 10 * time.Second

// period is the reconcile period, which may be unset under the none policy.
func (m *manager) period() time.Duration {
	if m.reconcilePeriod <= 0 {
		return defaultReconcilePeriod
	}
	return m.reconcilePeriod
}

// release has all running containers released, and reports whether they are, and
// the state file says so.
func (m *manager) release(ctx context.Context) bool {
	logger := klog.FromContext(ctx)
	pods := m.activePods()
	ready := m.sourcesReady.AllReady()
	complete := m.observe(logger, pods) && ready
	// Before it is asked again about containers of pods that are ending.
	settled := m.updater.isSettled()
	if ready {
		m.updater.keepPods(podUIDs(pods))
	}
	m.updater.settle(inPods(pods, ready))
	if !complete || !settled {
		return false
	}
	if err := m.store.Load().Replace(&state.Content{}); err != nil {
		logger.Error(err, "Could not take the released containers out of the CPU manager's state file")
		return false
	}
	m.releasing.Store(false)
	m.updater.forgetAll()
	logger.Info("Released all containers that were bound to CPUs")
	return true
}

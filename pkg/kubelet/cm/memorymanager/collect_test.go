// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/config"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// notReady are sources that have not all reported.
type notReady struct{ config.SourcesReady }

func (notReady) AllReady() bool { return false }

// TestStaleMemoryIsFreedWithinTenSeconds: the manager's own loop takes back what
// pods had that are gone, and nothing else.
func TestStaleMemoryIsFreedWithinTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "best-effort", "container")
		active, gone, late := pod("active", app("c", "1", "1Gi")), pod("gone", app("c", "1", "2Gi")), pod("late", app("c", "1", "4Gi"))
		n.mustAdmit(active)
		n.mustAdmit(gone)
		recorded := func() (uids []string) {
			for uid := range n.State().GetMemoryAssignments() {
				uids = append(uids, uid)
			}
			return uids
		}
		setActive := func(pods ...*v1.Pod) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.activePods = func() []*v1.Pod { return pods }
		}
		setActive(active)

		// Never before all sources are ready.
		n.mu.Lock()
		ready := n.sourcesReady
		n.sourcesReady = notReady{}
		n.mu.Unlock()
		time.Sleep(time.Minute + time.Second) // not when the loop wakes, too
		require.ElementsMatch(t, []string{"active", "gone"}, recorded())
		n.mu.Lock()
		n.sourcesReady = ready
		n.mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.ElementsMatch(t, []string{"active"}, recorded())

		// Never of a pod in admission, which the kubelet does not list yet.
		logger := klog.Logger{}
		n.BeginAdmission(logger, "late")
		require.NoError(t, n.Allocate(klog.NewContext(t.Context(), logger), late, &late.Spec.Containers[0], add))
		time.Sleep(time.Minute + time.Second)
		require.NoError(t, n.CommitAdmission(logger, "late"))
		require.ElementsMatch(t, []string{"active", "late"}, recorded())
		setActive(active, late)
		time.Sleep(time.Minute)
		require.ElementsMatch(t, []string{"active", "late"}, recorded())
	})
}

// A kubelet that was killed between two writes of the kubelet's own memory manager
// leaves a pod without containers. It goes like any other when the pod does, and is
// completed when the pod is admitted.
func TestRecordsWithoutContainers(t *testing.T) {
	setGates(t, true)
	n := newNode(t, "best-effort", "pod")
	orphan := memplan.PodRecord{Pod: []memplan.Block{{Nodes: numa.SetOf(1), Resource: "memory", Size: 16 * gi}}}
	require.NoError(t, n.replace(n.published().Records().With("gone", orphan).With("database", orphan)))
	n.active = []*v1.Pod{database()}
	n.restart()
	require.Len(t, n.GetPodMemory("gone"), 1)
	n.mustAdmit(database())
	require.Empty(t, n.GetPodMemory("gone"))
	require.NotContains(t, n.content(), "gone")
	require.Equal(t, 15.0, n.free(1))
	logger := klog.Logger{}
	require.EqualValues(t, 12*gi, n.GetMemory(logger, "database", "database")[0].Size)
	require.EqualValues(t, 4*gi, n.GetMemory(logger, "database", "backup-agent")[0].Size)

	n.remove(database())
	n.mustAdmit(pod("other", app("a", "1", "1Gi")))
	require.Equal(t, 31.0, n.free(1))
	require.NotContains(t, n.content(), "database")
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// A kubelet that was killed between two writes of the kubelet's own CPU manager
// leaves a pod without containers. It goes like any other when the pod does, and is
// completed when the pod is admitted.
func TestRecordsWithoutContainers(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	n.ready = false // the first kubelet does not look for pods that are gone
	m := n.start()
	orphan := cpuplan.Record{Pod: cpuplan.NewSet(1, 2, 9, 10)}
	require.NoError(t, m.commit(m.committed.With("gone", orphan).With("here", cpuplan.Record{Pod: cpuplan.NewSet(4, 5, 12, 13)})))
	here := pod("here", "4", container("a", "2"), container("b", ""))
	n.add(here)
	n.ready = true
	m = n.start()
	require.Equal(t, "1-2,9-10", m.GetPodCPUs("gone").String())
	n.reconcile(m)
	require.Empty(t, m.GetPodCPUs("gone").String())
	require.Equal(t, "0-3,6-11,14-15", m.content().Default.String())
	require.NotContains(t, n.file(), "gone")

	require.NoError(t, n.admit(m, here, true))
	require.Equal(t, "4-5,12-13", m.GetPodCPUs("here").String())
	own, shared := m.GetCPUAffinity("here", "a"), m.GetCPUAffinity("here", "b")
	require.Equal(t, 2, own.Size())
	require.Equal(t, "4-5,12-13", own.Union(shared).String())
	require.Empty(t, own.Intersection(shared).String())

	n.remove("here")
	n.reconcile(m)
	require.Equal(t, "0-15", m.content().Default.String())
}

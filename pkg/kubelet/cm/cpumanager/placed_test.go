// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
)

// TestContainerCPUNodes: what is staged is told while the admission is open, and
// what is committed afterwards.
func TestContainerCPUNodes(t *testing.T) {
	gates(t, true)
	logger, ctx := ktesting.NewTestContext(t)
	n := newNode(t)
	m := n.start()
	db := database("db")
	n.add(db)
	_, ok := m.ContainerCPUNodes("db", "database")
	require.False(t, ok)
	m.BeginAdmission(logger, "db")
	require.NoError(t, allocate(ctx, m, db, true))
	staged, ok := m.ContainerCPUNodes("db", "database")
	require.True(t, ok)
	require.Equal(t, 1, staged.Size())
	require.NoError(t, m.CommitAdmission(logger, "db"))
	committed, ok := m.ContainerCPUNodes("db", "database")
	require.True(t, ok)
	require.Equal(t, staged, committed)
	pool, ok := m.ContainerCPUNodes("db", "backup-agent")
	require.True(t, ok)
	require.Equal(t, staged, pool, "the pod lies on one node")
	_, ok = m.ContainerCPUNodes("other", "c")
	require.False(t, ok)
}

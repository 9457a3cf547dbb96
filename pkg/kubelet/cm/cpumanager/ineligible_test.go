// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
)

// warnings collects what is logged as an error.
func (n *node) warnings() func() []string {
	var mu sync.Mutex
	var lines []string
	sink := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(line, `"error"=`) {
			lines = append(lines, line)
		}
	}, funcr.Options{})
	n.sink = &sink
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		defer func() { lines = nil }()
		return lines
	}
}

func TestFractionalBudgetsAreLoud(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	warnings := n.warnings()
	m := n.start()
	half := pod("half", "3500m", container("a", "2"), container("b", "500m"), v1.Container{Name: "c"})
	n.add(half)
	require.NoError(t, n.admit(m, half, true))
	told := warnings()
	require.Len(t, told, 1)
	for _, want := range []string{
		`"Container gets no exclusive CPUs although it asks for a whole number of them"`, `"pod"={"name"="half" "namespace"="test"}`, `"containerName"="a"`,
		`"asked"="cpu 2, memory 1Gi"`, `"budget"="cpu 3500m, memory 16Gi"`, `"reason"="fractional_budget"`, `"because"="the pod's budget is not a whole number of CPUs"`,
	} {
		require.Contains(t, told[0], want)
	}

	// A pod that is refused is not told of, nor one that ran before.
	logger, ctx := n.log()
	m.BeginAdmission(logger, "other")
	require.NoError(t, allocate(ctx, m, pod("other", "3500m", container("a", "2")), true))
	require.NoError(t, m.RollbackAdmission(logger, "other"))
	n.before = containermap.NewContainerMap()
	n.before.Add("half", "a", "id")
	m = n.start()
	require.NoError(t, n.admit(m, half, true))
	require.Empty(t, warnings())

	// Without transactions it is told at once.
	require.NoError(t, allocate(ctx, m, pod("foreign", "3500m", container("a", "2")), true))
	require.Len(t, warnings(), 1)

	// A disk that cannot be written to is no reason to be silent.
	gone := database("gone")
	n.add(gone)
	require.NoError(t, n.admit(m, gone, true))
	n.reconcile(m) // after which nothing is written until a pod is gone
	n.breakDisk()
	n.remove("gone")
	require.NoError(t, n.admit(m, pod("late", "2500m", container("a", "1")), true))
	require.Contains(t, strings.Join(warnings(), "\n"), `"name"="late"`)
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/features"
)

// quotaOf is what the kubelet makes of a container's limit, or of its pod's where
// it has none.
func quotaOf(m *manager, p *v1.Pod, name string, period time.Duration) string {
	c := specOf(p, name)
	limit := c.Resources.Limits.Cpu()
	if limit.IsZero() {
		limit = p.Spec.Resources.Limits.Cpu()
	}
	return m.LowerCPULimit(p, c, limit, period).String()
}

func TestQuotasInScopePod(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	gates(t, true)
	n := newNode(t)
	m := n.start()
	db := database("db")
	lifted, known := m.PodQuotaLifted(logger, db, 0)
	require.False(t, lifted || known, "nothing is recorded")
	require.Equal(t, "6", quotaOf(m, db, "backup-agent", 0))

	n.add(db)
	require.NoError(t, n.admit(m, db, true))
	check := func() {
		t.Helper()
		lifted, known := m.PodQuotaLifted(logger, db, 0)
		require.True(t, lifted && known)
		require.Equal(t, "2", quotaOf(m, db, "backup-agent", 0))
		require.Equal(t, "4", quotaOf(m, db, "database", 0), "exclusive: left alone")
		require.Equal(t, "2", quotaOf(m, db, "debugger", 0), "ephemeral")
	}
	check()

	// What is recorded counts, not today's gates, scope and policies.
	gates(t, false)
	m = n.start()
	require.NoError(t, n.admit(m, db, false))
	check()
	other := database("other")
	n.add(other)
	require.NoError(t, n.admit(m, other, false))
	_, known = m.PodQuotaLifted(logger, other, 0)
	require.False(t, known, "nothing is exclusive")
	require.Equal(t, "6", quotaOf(m, other, "backup-agent", 0))
}

func TestQuotasInScopeContainer(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	gates(t, true)
	n := newNode(t)
	m := n.start()
	db := database("db")
	n.add(db)
	require.NoError(t, n.admit(m, db, false))
	lifted, known := m.PodQuotaLifted(logger, db, 0)
	require.True(t, lifted && known)
	require.Equal(t, "1", quotaOf(m, db, "backup-agent", 0))
	require.Equal(t, "1", quotaOf(m, db, "metrics-exporter", 0))
	require.Equal(t, "4", quotaOf(m, db, "database", 0), "exclusive: left alone")
	require.Equal(t, "2", quotaOf(m, db, "debugger", 0), "ephemeral")

	// While it is resized, a container's resources are not those of its pod.
	resized := db.Spec.InitContainers[0].DeepCopy()
	resized.Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("500m")}
	require.Equal(t, "500m", m.LowerCPULimit(db, resized, resized.Resources.Limits.Cpu(), 0).String())
	resized.Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("6")}
	require.Equal(t, "1", m.LowerCPULimit(db, resized, resized.Resources.Limits.Cpu(), 0).String())
}

func TestQuotasOfOtherPods(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	gates(t, true)
	n := newNode(t)
	m := n.start()
	plain := pod("plain", "", container("a", "2"))
	n.add(plain)
	require.NoError(t, n.admit(m, plain, true))
	_, known := m.PodQuotaLifted(logger, plain, 0)
	require.False(t, known, "no budget: the kubelet's own rule")

	shared := pod("shared", "3", v1.Container{Name: "a"}, v1.Container{Name: "b"})
	n.add(shared)
	require.NoError(t, n.admit(m, shared, true))
	require.Equal(t, 3, m.GetCPUAffinity("shared", "a").Size())
	_, known = m.PodQuotaLifted(logger, shared, 0)
	require.False(t, known, "nothing is exclusive")
	require.Equal(t, "3", quotaOf(m, shared, "a", 0))
}

// Nothing is recorded under the none policy, so the kubelet's own rules hold, for
// a pod that had exclusive CPUs, too.
func TestQuotasUnderThePolicyNone(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	gates(t, true)
	n := newNode(t)
	db := database("db")
	n.add(db)
	require.NoError(t, n.admit(n.start(), db, true))
	n.policy = PolicyNone
	m := n.start()
	require.NoError(t, n.admit(m, db, true))
	_, known := m.PodQuotaLifted(logger, db, 0)
	require.False(t, known)
	require.Equal(t, "6", quotaOf(m, db, "backup-agent", 0))
	require.Equal(t, "6", quotaOf(m, db, "debugger", 0), "ephemeral")
}

func TestThePodsQuotaStaysWhereNothingIsLeft(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	gates(t, true)
	n := newNode(t)
	m := n.start()
	full := pod("full", "4", container("a", "4"), container("b", ""))
	n.add(full)
	require.NoError(t, n.admit(m, full, false))
	lifted, known := m.PodQuotaLifted(logger, full, 0)
	require.True(t, known)
	require.False(t, lifted)
	require.Equal(t, "1", quotaOf(m, full, "b", 0))
}

func TestLeastQuota(t *testing.T) {
	require.EqualValues(t, 10, leastQuota(0))
	require.EqualValues(t, 200, leastQuota(5*time.Millisecond))
	require.EqualValues(t, 1, leastQuota(time.Second))
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.CPUCFSQuotaPeriod, false)
	require.EqualValues(t, 10, leastQuota(5*time.Millisecond), "another period needs its gate")
}

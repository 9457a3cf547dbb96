// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

func TestRestartMovesNothing(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	n.affinity.nodes = []int{1}
	m := n.start()
	db := database("db")
	n.add(db)
	require.NoError(t, n.admit(m, db, true))
	require.Equal(t, "4-6,12-14", m.GetPodCPUs("db").String())
	require.Equal(t, "4-5,12-13", m.GetCPUAffinity("db", "database").String())
	require.Equal(t, "6,14", m.GetCPUAffinity("db", "backup-agent").String())
	require.Equal(t, "0-3,7-11,15", m.GetCPUAffinity("other", "c").String())
	require.EqualValues(t, "container", m.GetResourceIsolationLevel(db, &db.Spec.Containers[0]))
	require.EqualValues(t, "pod", m.GetResourceIsolationLevel(db, &db.Spec.InitContainers[0]))

	file := n.file()
	n.affinity.nodes = []int{0}
	for range 2 {
		m = n.start()
		logger, _ := ktesting.NewTestContext(t)
		hints := m.GetPodTopologyHints(logger, db, lifecycle.AddOperation)["cpu"]
		require.Len(t, hints, 1)
		require.True(t, hints[0].Preferred)
		require.Equal(t, []int{1}, hints[0].NUMANodeAffinity.GetBits())
		require.NoError(t, n.admit(m, db, true))
		require.Equal(t, file, n.file())
	}
}

func TestGateOffAndOnOverALivePod(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	db := database("db")
	n.add(db)
	require.NoError(t, n.admit(n.start(), db, true))
	file := n.file()

	gates(t, false)
	m := n.start()
	require.NoError(t, n.admit(m, db, false))
	require.Equal(t, file, n.file())
	require.EqualValues(t, "pod", m.GetResourceIsolationLevel(db, &db.Spec.InitContainers[0]))
	require.Empty(t, m.GetExclusiveCPUs("db", "backup-agent").String(), "or its CFS quota would be lifted")
	require.Equal(t, "3,11", m.GetCPUAffinity("db", "backup-agent").String())
	require.Equal(t, "1-2,9-10", m.GetExclusiveCPUs("db", "database").String())
	other := database("other")
	n.add(other)
	require.NoError(t, n.admit(m, other, false))
	require.EqualValues(t, "host", m.GetResourceIsolationLevel(other, &other.Spec.Containers[0]))

	gates(t, true)
	m = n.start()
	require.NoError(t, n.admit(m, db, true))
	require.Equal(t, file, n.file())
}

func TestRefusalGivesEverythingBack(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	m := n.start()
	before := n.file()
	two := pod("two", "", container("a", "6"), container("b", "12"))
	n.add(two)
	err := n.admit(m, two, false)
	require.ErrorContains(t, err, "not enough cpus available to satisfy request: requested=12, available=8")
	require.ErrorContains(t, err, `container "b"`)
	require.Equal(t, before, n.file())
	require.Equal(t, "0-15", m.GetCPUAffinity("", "").String())

	// Committed, and refused by a later provider.
	logger, ctx := ktesting.NewTestContext(t)
	one := pod("one", "", container("a", "6"))
	n.add(one)
	m.BeginAdmission(logger, "one")
	require.NoError(t, allocate(ctx, m, one, false))
	require.Empty(t, m.GetExclusiveCPUs("one", "a").String(), "staged is not published")
	require.NoError(t, m.CommitAdmission(logger, "one"))
	require.NotEmpty(t, m.GetExclusiveCPUs("one", "a").String())
	require.NoError(t, m.RollbackAdmission(logger, "one"))
	require.Equal(t, before, n.file())
}

func TestRefusalsHaveTheirReasons(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	n.options = map[string]string{FullPCPUsOnlyOption: "true"}
	m := n.start()
	type typed interface{ Type() string }

	err := n.admit(m, pod("empty", "4", container("a", "2"), container("b", "2"), container("c", "")), true)
	require.Equal(t, "EmptyPodSharedPoolError", err.(typed).Type())
	require.ErrorContains(t, err, "leaving no cpus for shared containers")

	err = n.admit(m, pod("odd", "4", container("a", "1"), container("b", "")), true)
	require.Equal(t, ErrorSMTAlignment, err.(typed).Type())
	require.ErrorContains(t, err, `SMT Alignment Error: requested 1 cpus not multiple cpus per core = 2 (container "a")`)

	err = n.admit(m, pod("odd", "", container("a", "3")), false)
	require.Equal(t, ErrorSMTAlignment, err.(typed).Type())

	err = n.admit(m, pod("huge", "", container("a", "1Ei")), false)
	require.ErrorContains(t, err, `container "a": cpu request 1Ei`)
}

func TestFullDiskRefusesAndTakesNothing(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	m := n.start()
	require.NoError(t, os.RemoveAll(n.dir))
	p := pod("p", "", container("a", "2"))
	n.add(p)
	require.ErrorContains(t, n.admit(m, p, false), "cannot replace state file")
	require.Empty(t, m.GetExclusiveCPUs("p", "a").String())

	_, ctx := ktesting.NewTestContext(t)
	require.ErrorContains(t, allocate(ctx, m, p, false), "cannot replace state file", "without a transaction")
	require.Empty(t, m.GetExclusiveCPUs("p", "a").String())

	require.NoError(t, os.Mkdir(n.dir, 0o755))
	require.NoError(t, n.admit(m, p, false))
	require.Equal(t, 2, m.GetExclusiveCPUs("p", "a").Size())
}

func TestPodsThatAreGoneGiveBackInOneWrite(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	m := n.start()
	for _, uid := range []string{"a", "b"} {
		p := database(uid)
		n.add(p)
		require.NoError(t, n.admit(m, p, true))
	}
	n.mu.Lock()
	n.pods = nil
	n.mu.Unlock()
	m.Reconcile(context.Background())
	require.Empty(t, m.State().GetCPUAssignments())
	require.Empty(t, m.State().GetPodCPUAssignments())
	require.Equal(t, "0-15", m.State().GetDefaultCPUSet().String())
}

func TestAdmissionIsOneWrite(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	m := n.start()
	old := pod("old", "", container("a", "10"))
	n.add(old)
	require.NoError(t, n.admit(m, old, false))
	before := n.file()

	// The CPUs of the pod that is gone are needed for the new one.
	logger, ctx := ktesting.NewTestContext(t)
	p := pod("new", "", container("a", "6"), container("b", "6"))
	m.BeginAdmission(logger, "new")
	n.mu.Lock()
	n.pods = []*v1.Pod{p}
	n.mu.Unlock()
	require.NoError(t, allocate(ctx, m, p, false))
	require.Equal(t, before, n.file())
	require.NoError(t, m.CommitAdmission(logger, "new"))
	require.Equal(t, 6, m.GetExclusiveCPUs("new", "b").Size())
	require.Empty(t, m.GetExclusiveCPUs("old", "a").String())
}

func TestAPodInAdmissionIsNotStale(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	m := n.start()
	logger, ctx := ktesting.NewTestContext(t)
	p := pod("p", "", container("a", "2"), container("b", "2"))
	m.BeginAdmission(logger, "p")
	require.NoError(t, m.Allocate(ctx, p, &p.Spec.Containers[0], lifecycle.AddOperation))
	m.Reconcile(ctx)
	require.NoError(t, m.Allocate(ctx, p, &p.Spec.Containers[1], lifecycle.AddOperation))
	n.add(p)
	require.NoError(t, m.CommitAdmission(logger, "p"))
	require.Equal(t, 2, m.GetExclusiveCPUs("p", "a").Size())
	require.True(t, m.GetExclusiveCPUs("p", "a").Intersection(m.GetExclusiveCPUs("p", "b")).IsEmpty())
}

func TestReconcileMovesTheSharedPool(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, _ *cri) {
		n.runtime, n.silent = n, false
		m := n.start()
		synctest.Wait()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		db := database("db")
		n.add(db)
		require.NoError(t, n.admit(m, db, true))
		n.reconcile(m)
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), n.update("shared-s"))
		require.Equal(t, m.GetCPUAffinity("db", "backup-agent").String(), n.update("db-backup-agent"))

		// A container that was started again was created with whatever the
		// runtime thought right.
		n.setSuffix("-again")
		n.reconcile(m)
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), n.update("shared-s-again"))

		// An allocation does not wait for the period.
		more := pod("more", "", container("m", "2"))
		n.add(more)
		require.NoError(t, n.admit(m, more, false))
		synctest.Wait()
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), n.update("shared-s-again"))
	})
}

func TestPodsThatRanBeforeAreNotRefused(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	n.before = containermap.NewContainerMap()
	n.before.Add("big", "a", "id")
	big := pod("big", "", container("a", "15"))
	n.add(big)
	m := n.start()
	logger, _ := ktesting.NewTestContext(t)
	needs, holds := m.HoldsPod(logger, big)
	require.True(t, needs && holds)
	require.NoError(t, n.admit(m, big, false))
	require.EqualValues(t, "host", m.GetResourceIsolationLevel(big, &big.Spec.Containers[0]))

	// Nor does a full disk end it.
	fits := pod("fits", "", container("a", "2"))
	m.mu.Lock()
	m.runningBefore["fits"] = true
	m.mu.Unlock()
	n.add(fits)
	require.NoError(t, os.RemoveAll(n.dir))
	require.NoError(t, n.admit(m, fits, false))
	require.Empty(t, m.GetExclusiveCPUs("fits", "a").String())
	require.NoError(t, os.Mkdir(n.dir, 0o755))

	// A static pod that is made anew has the UID of the one that ran.
	n.mu.Lock()
	n.pods = nil
	n.mu.Unlock()
	m.Reconcile(context.Background())
	n.add(big)
	require.ErrorContains(t, n.admit(m, big, false), "not enough cpus")
}

func TestMachineChangesOverAnIdleAndABusyNode(t *testing.T) {
	gates(t, true)
	n := newNode(t)
	m := n.start()
	p := pod("p", "", container("a", "2"))
	n.add(p)
	require.NoError(t, n.admit(m, p, false))
	require.Equal(t, "1,9", m.GetExclusiveCPUs("p", "a").String())

	// Its CPUs become reserved: it keeps them, and nobody gets them after it.
	n.reserved = cpuset.New(0, 1, 8, 9)
	m = n.start()
	require.NoError(t, n.admit(m, p, false))
	require.Equal(t, "1,9", m.GetExclusiveCPUs("p", "a").String())
	n.options = map[string]string{StrictCPUReservationOption: "true"}
	m = n.start()
	require.Equal(t, "2-7,10-15", m.GetCPUAffinity("", "").String())

	// A record of CPUs that the machine has no more is dropped.
	m.mu.Lock()
	content := *m.content()
	content.Assignments = content.Assignments.Clone()
	content.Assignments["gone"] = map[string]cpuset.CPUSet{"x": cpuset.New(40)}
	require.NoError(t, m.store.Load().Replace(&content))
	m.mu.Unlock()
	m = n.start()
	require.Empty(t, m.GetExclusiveCPUs("gone", "x").String())
	require.Equal(t, "1,9", m.GetExclusiveCPUs("p", "a").String())
}

func TestConfigurationErrors(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	one := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	for _, c := range []struct {
		policy      string
		info        *cadvisorapi.MachineInfo
		reserved    cpuset.CPUSet
		reservation v1.ResourceList
		period      time.Duration
		err         string
	}{
		{policy: "static", info: machine(), reservation: v1.ResourceList{}, err: "unable to determine reserved CPU resources"},
		{policy: "static", info: machine(), reservation: v1.ResourceList{v1.ResourceCPU: resource.MustParse("0")}, err: "to be greater than zero"},
		{policy: "static", info: machine(), reservation: one, reserved: cpuset.New(1, 2), err: "(size of 1-2 did not equal 1)"},
		{policy: "static", info: machine(), reservation: one, reserved: cpuset.New(99), err: `reserved CPUs "99" are not among the machine's online CPUs "0-15"`},
		{policy: "static", info: machine(), reservation: one, period: -time.Second, err: "cpuManagerReconcilePeriod"},
		{policy: "static", info: &cadvisorapi.MachineInfo{}, reservation: one, err: "could not detect number of cpus"},
		{policy: "greedy", info: machine(), reservation: one, err: `unknown policy: "greedy"`},
	} {
		if c.period == 0 {
			c.period = time.Second
		}
		_, err := NewManager(logger, c.policy, nil, c.period, c.info, c.reserved, c.reservation, t.TempDir(), fixedAffinity{})
		require.ErrorContains(t, err, c.err)
	}
	_, err := NewManager(logger, "none", map[string]string{FullPCPUsOnlyOption: "true"}, time.Second, machine(), cpuset.New(), one, t.TempDir(), fixedAffinity{})
	require.ErrorContains(t, err, "None policy: received unsupported options")
}

func TestNonePolicyGivesNothing(t *testing.T) {
	gates(t, true)
	logger, ctx := ktesting.NewTestContext(t)
	n := newNode(t)
	m, err := NewManager(logger, "none", nil, time.Second, machine(), cpuset.New(), nil, n.dir, fixedAffinity{})
	require.NoError(t, err)
	require.NoError(t, m.Start(ctx, n.active, ready(true), n, n, nil))
	p := database("p")
	require.Nil(t, m.GetPodTopologyHints(logger, p, lifecycle.AddOperation))
	require.NoError(t, m.AllocatePod(logger, p, lifecycle.AddOperation))
	require.NoError(t, m.Allocate(ctx, p, &p.Spec.Containers[0], lifecycle.AddOperation))
	require.Empty(t, m.GetCPUAffinity("p", "database").String())
	require.Empty(t, m.GetAllocatableCPUs().String())
	require.Equal(t, "0-15", m.GetAllCPUs().String())
	require.EqualValues(t, "host", m.GetResourceIsolationLevel(p, &p.Spec.Containers[0]))
}

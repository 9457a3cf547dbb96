// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
)

func TestAContainerThatIsStartedAgain(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		n.silent = false
		m := n.start()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		old := n.runContainer(m, r, shared, "s")
		r.exit(old)
		n.setSuffix("-again")
		again := n.runContainer(m, r, shared, "s")
		n.setSuffix("") // the status lags behind
		p := pod("p", "", container("c", "4"))
		n.add(p)
		require.NoError(t, n.admit(m, p, false))
		time.Sleep(time.Minute)
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus(again))
		require.Equal(t, "0-15", r.cpus(old), "it is left alone")
	})
}

func TestAPodThatIsRemovedDuringACall(t *testing.T) {
	for _, tells := range []bool{true, false} {
		t.Run(fmt.Sprintf("status=%t", tells), func(t *testing.T) {
			inTime(t, func(t *testing.T, n *node, r *cri) {
				if !tells {
					n.runtime = r
				}
				m := n.start()
				shared := pod("shared", "", container("s", ""))
				n.add(shared)
				id := n.runContainer(m, r, shared, "s")
				unblock := r.block()
				p := pod("p", "", container("c", "4"))
				n.add(p)
				require.NoError(t, n.admit(m, p, false))
				synctest.Wait()
				r.exit(id)
				n.remove("shared")
				n.remove("p")
				time.Sleep(11 * time.Second)
				unblock()
				time.Sleep(11 * time.Second)
				synctest.Wait()
				requireEmpty(t, m.updater)
				require.Empty(t, m.containerMap)
			})
		})
	}
}

// A pod that is deleted by force, or whose manifest is removed, is not active
// from then on, and yet its containers have their grace period.
func TestAPodThatIsStillEndingLeavesItsCPUs(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		old := pod("old", "", container("c", "10"))
		n.add(old)
		require.NoError(t, n.admit(m, old, false))
		id := n.runContainer(m, r, old, "c")
		n.remove("old")
		p := pod("new", "", container("c", "10"))
		n.add(p)
		require.NoError(t, n.admit(m, p, false))
		n.runContainer(m, r, p, "c")
		require.Equal(t, m.GetCPUAffinity("", "").String(), r.cpus(id))
		r.exit(id)
		time.Sleep(11 * time.Second)
		m.updater.mu.Lock()
		require.NotContains(t, m.updater.containers, id)
		m.updater.mu.Unlock()
	})
}

func TestEphemeralContainersAreMovedToo(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		n.silent = false
		n.before = containermap.NewContainerMap()
		m := n.start()
		shared := pod("shared", "")
		shared.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger"}}}
		n.add(shared)
		r.run("shared-debugger", "0-15")
		time.Sleep(11 * time.Second) // learnt from the status
		p := pod("p", "", container("c", "4"))
		n.add(p)
		require.NoError(t, n.admit(m, p, false))
		n.runContainer(m, r, p, "c")
		require.Equal(t, m.GetCPUAffinity("shared", "debugger").String(), r.cpus("shared-debugger"))
	})
}

// restartWith starts a kubelet on a node where 1,000 containers run.
func restartWith(t *testing.T, tells bool, cpus string) (updates, statuses, peak int) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		if !tells {
			n.runtime = r
		}
		n.start() // leaves a state file, without which more is asked
		n.stop()
		synctest.Wait()
		n.silent = false
		r.delay = func() time.Duration { return 5 * time.Millisecond }
		n.before = containermap.NewContainerMap()
		for i := range 1000 {
			p := pod(fmt.Sprintf("p%d", i), "", container("c", ""))
			n.add(p)
			n.before.Add(string(p.UID), "c", string(p.UID)+"-c")
			r.run(string(p.UID)+"-c", cpus)
		}
		m := n.start()
		for range 5 {
			time.Sleep(10 * time.Second)
			require.NoError(t, n.admit(m, pod("idle", "", container("c", "")), false))
		}
		for _, p := range n.active() {
			require.Equal(t, "0-15", r.cpus(string(p.UID)+"-c"))
		}
		updates, statuses = r.counts()
		peak = r.peak
	})
	return updates, statuses, peak
}

func TestARestartOfTheKubeletIsNoBurst(t *testing.T) {
	updates, statuses, peak := restartWith(t, true, "0-15")
	require.Equal(t, []int{0, 1000, maxRuntimeCalls}, []int{updates, statuses, peak})
	updates, statuses, peak = restartWith(t, true, "0-7")
	require.Equal(t, []int{1000, 1000, maxRuntimeCalls}, []int{updates, statuses, peak})
	updates, statuses, peak = restartWith(t, false, "0-15")
	require.Equal(t, []int{1000, 0, maxRuntimeCalls}, []int{updates, statuses, peak})
}

// Up to V(2), which is how most kubelets run, reconciling is silent, and a runtime
// that is away is told of less and less often.
func TestReconcilingIsQuiet(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		var mu sync.Mutex
		var lines []string
		sink := funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}, funcr.Options{Verbosity: 2})
		logged := func() []string {
			mu.Lock()
			defer mu.Unlock()
			l := lines
			lines = nil
			return l
		}
		n.sink, n.silent = &sink, false
		m := n.start()
		shared, old, p := pod("shared", "", container("s", "")), pod("old", "", container("a", "2")), pod("p", "", container("a", "2"))
		n.add(shared)
		n.add(old)
		require.NoError(t, n.admit(m, old, false))
		n.runContainer(m, r, shared, "s")
		r.exit(n.runContainer(m, r, old, "a"))
		n.remove("old")
		logged()
		time.Sleep(10 * time.Minute)
		require.Len(t, logged(), 1, "the pod that is gone")

		r.failWith(fmt.Errorf("the runtime is away"))
		n.add(p)
		require.NoError(t, n.admit(m, p, false))
		logged()
		time.Sleep(time.Hour)
		require.InDelta(t, 9, len(logged()), 1, "of more than 360 failures")
	})
}

func TestUntilAllSourcesHaveToldOfTheirPods(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		n.ready = false
		n.before = containermap.NewContainerMap()
		n.before.Add("p", "c", "p-c")
		r.run("p-c", "1-2")
		m := n.start()
		time.Sleep(time.Minute)
		require.Equal(t, "1-2", r.cpus("p-c"), "it is not known yet what it is to have")
		other := pod("other", "", container("c", "4"))
		n.add(other)
		require.NoError(t, n.admit(m, other, false))
		n.runContainer(m, r, other, "c")
		require.True(t, mustParse(r.cpus("p-c")).Intersection(m.GetExclusiveCPUs("other", "c")).IsEmpty())
	})
}

func BenchmarkReconcile1000Unchanged(b *testing.B) {
	n := &node{dir: b.TempDir(), ready: true}
	t := &testing.T{}
	r := newCRI(t)
	logger, ctx := ktesting.NewTestContext(b)
	made, err := NewManager(logger, "static", nil, time.Hour, machine(), n.reserved, v1.ResourceList{v1.ResourceCPU: resourceCPU(2)}, n.dir, fixedAffinity{})
	require.NoError(b, err)
	statuses := fixedStatuses{}
	for i := range 1000 {
		p := pod(fmt.Sprintf("p%d", i), "", container("c", ""))
		n.add(p)
		statuses[p.UID] = v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{n.running(p, "c")}}
		r.run(string(p.UID)+"-c", "0-15")
	}
	ctx, stop := context.WithCancel(ctx)
	b.Cleanup(stop)
	require.NoError(b, made.Start(ctx, n.active, n.ready, statuses, withStatus{r}, nil))
	m := made.(*manager)
	n.reconcile(m)
	before, _ := r.counts()
	b.ReportAllocs()
	for b.Loop() {
		m.Reconcile(ctx)
	}
	b.StopTimer()
	quiesce(m)
	after, _ := r.counts()
	require.Equal(b, before, after)
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2/ktesting"
)

// inTime runs a test with a clock that moves when everybody waits. The node's
// runtime tells about containers; no pod has a status unless the test says so.
func inTime(t *testing.T, test func(t *testing.T, n *node, r *cri)) {
	gates(t, true)
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		r := newCRI(t)
		n.runtime, n.silent, n.period = withStatus{r}, true, 10*time.Second
		test(t, n, r)
		if n.stop != nil {
			n.stop()
		}
		synctest.Wait()
	})
}

func late(t *testing.T) float64 {
	value, err := testutil.GetCounterMetricValue(unsettledStarts)
	require.NoError(t, err)
	return value
}

// begin starts a container in the background and returns when it has started.
func (n *node) begin(m *manager, r *cri, pod *v1.Pod, name string) <-chan time.Time {
	started := make(chan time.Time, 1)
	id := n.create(m, r, pod, name)
	go func() {
		n.startContainer(m, r, pod, name, id)
		started <- time.Now()
	}()
	synctest.Wait()
	return started
}

func TestOthersLeaveBeforeAnExclusiveContainerStarts(t *testing.T) {
	for _, name := range []string{"database", "backup-agent"} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, n *node, r *cri) {
				m := n.start()
				shared := pod("shared", "", container("s", ""))
				n.add(shared)
				id := n.runContainer(m, r, shared, "s")
				require.Equal(t, "0-15", r.cpus(id))
				updates, _ := r.counts()
				require.Zero(t, updates)

				unblock := r.block()
				db := database("db")
				n.add(db)
				require.NoError(t, n.admit(m, db, true), "admission does not wait")
				synctest.Wait()
				updates, _ = r.counts()
				require.Equal(t, 1, updates, "it begins at once")

				before := late(t)
				started := n.begin(m, r, db, name)
				time.Sleep(time.Second)
				require.Empty(t, started)
				unblock()
				<-started
				require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus(id))
				require.True(t, mustParse(r.cpus(id)).Intersection(m.GetPodCPUs("db")).IsEmpty())
				require.Equal(t, before, late(t))
			})
		})
	}
}

func TestAnExclusiveContainerWaitsNoLongerThanTheLimit(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		n.runContainer(m, r, shared, "s")
		r.failWith(fmt.Errorf("the runtime is away"))
		db := database("db")
		n.add(db)
		require.NoError(t, n.admit(m, db, true))
		before, begin := late(t), time.Now()
		started := <-n.begin(m, r, db, "database")
		require.Equal(t, maxStartWait, started.Sub(begin))
		require.Equal(t, before+1, late(t))

		// It is moved as soon as it can be.
		r.failWith(nil)
		time.Sleep(10 * time.Second)
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus("shared-s"))
	})
}

func TestAContainerCreatedBeforeAnAllocationIsCorrectedBeforeItStarts(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		id := n.create(m, r, shared, "s")
		db := database("db")
		n.add(db)
		require.NoError(t, n.admit(m, db, true))
		synctest.Wait()
		require.Equal(t, "0-15", r.cpus(id))
		n.startContainer(m, r, shared, "s", id)
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus(id))
		updates, _ := r.counts()
		require.Equal(t, 1, updates)
	})
}

// It was created with the second answer, which is not the one that holds now.
func TestAContainerWhoseCreationFailedBefore(t *testing.T) {
	for _, tells := range []bool{true, false} {
		inTime(t, func(t *testing.T, n *node, r *cri) {
			if !tells {
				n.runtime = r
			}
			m := n.start()
			shared := pod("shared", "", container("s", ""))
			n.add(shared)
			first := m.GetCPUAffinity("shared", "s")
			other := pod("other", "", container("a", "2"))
			n.add(other)
			require.NoError(t, n.admit(m, other, false))
			id := n.create(m, r, shared, "s")
			n.remove("other")
			m.Reconcile(context.Background())
			require.Equal(t, first, m.GetCPUAffinity("shared", "s"))
			n.startContainer(m, r, shared, "s", id)
			require.Equal(t, first.String(), r.cpus(id))
		})
	}
}

// The call in flight does not have the container on the new exclusive CPUs yet,
// but will have.
func TestAContainerThatIsOnItsWayToWhatBecomesExclusive(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		synctest.Wait()
		shared, old := pod("shared", "", container("s", "")), pod("old", "", container("a", "4"))
		n.add(shared)
		n.add(old)
		require.NoError(t, n.admit(m, old, false))
		n.runContainer(m, r, shared, "s")
		n.remove("old")
		unblock := r.block()
		time.Sleep(11 * time.Second)
		p := pod("new", "", container("a", "4"))
		n.add(p)
		require.NoError(t, n.admit(m, p, false))
		started := n.begin(m, r, p, "a")
		require.Empty(t, started)
		unblock()
		<-started
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus("shared-s"))
	})
}

func TestADecisionDuringACallThatFails(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		id := n.runContainer(m, r, shared, "s")
		unblock := r.block()
		for _, uid := range []string{"a", "b"} {
			p := pod(uid, "", container("c", "2"))
			n.add(p)
			require.NoError(t, n.admit(m, p, false))
			synctest.Wait()
		}
		failures := 0
		r.mu.Lock()
		r.fails = func(string) error {
			if failures++; failures == 1 {
				return fmt.Errorf("once")
			}
			return nil
		}
		r.mu.Unlock()
		begin := time.Now()
		unblock()
		synctest.Wait()
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus(id))
		require.Equal(t, begin, time.Now())
	})
}

func TestFailedUpdatesAreTriedAgainSoon(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		id := n.runContainer(m, r, shared, "s")
		r.failWith(fmt.Errorf("the runtime is away"))
		other := pod("other", "", container("a", "2"))
		n.add(other)
		require.NoError(t, n.admit(m, other, false))
		time.Sleep(60 * time.Second)
		synctest.Wait()
		r.mu.Lock()
		times := r.containers[id].times
		r.mu.Unlock()
		want := []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000, 10000}
		for i := range len(times) - 1 {
			require.Equal(t, want[i]*time.Millisecond, times[i+1].Sub(times[i]), "retry %d", i)
		}
		require.Greater(t, len(times), 9)

		// Another decision does not wait for that.
		more := pod("more", "", container("a", "2"))
		n.add(more)
		r.failWith(nil)
		require.NoError(t, n.admit(m, more, false))
		synctest.Wait()
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus(id))
	})
}

func TestALaterDecisionDuringACall(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		id := n.runContainer(m, r, shared, "s")
		unblock := r.block()
		for _, uid := range []string{"a", "b"} {
			p := pod(uid, "", container("c", "2"))
			n.add(p)
			require.NoError(t, n.admit(m, p, false))
			synctest.Wait()
		}
		updates, _ := r.counts()
		require.Equal(t, 1, updates, "one call at a time")
		unblock()
		synctest.Wait()
		updates, _ = r.counts()
		require.Equal(t, 2, updates)
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus(id))
	})
}

func TestSharedPoolsGrowWithThePeriod(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		synctest.Wait()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		p := pod("p", "", container("c", "4"))
		n.add(p)
		require.NoError(t, n.admit(m, p, false))
		id := n.runContainer(m, r, shared, "s")
		narrow := r.cpus(id)
		n.remove("p")
		other := pod("other", "", container("c", "2"))
		n.add(other)
		require.NoError(t, n.admit(m, other, false))
		synctest.Wait()
		require.Equal(t, narrow, r.cpus(id))
		time.Sleep(11 * time.Second)
		require.Equal(t, m.GetCPUAffinity("shared", "s").String(), r.cpus(id))
		require.NotEqual(t, narrow, r.cpus(id))
	})
}

func TestAddContainerDoesNotBlockWithoutALoop(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		shared, db := pod("shared", "", container("s", "")), database("db")
		n.add(shared)
		n.add(db)
		n.runContainer(m, r, shared, "s")
		unblock := r.block()
		require.NoError(t, n.admit(m, db, true))
		started := n.begin(m, r, db, "database")
		require.Empty(t, started)
		begin := time.Now()
		n.stop()
		require.Equal(t, begin, <-started, "the kubelet ends")
		unblock()
		require.Equal(t, begin, <-n.begin(m, r, db, "backup-agent"))

		logger, _ := ktesting.NewTestContext(t)
		made, err := NewManager(logger, "static", nil, time.Second, machine(), n.reserved, v1.ResourceList{v1.ResourceCPU: resourceCPU(2)}, t.TempDir(), fixedAffinity{})
		require.NoError(t, err)
		made.AddContainer(logger, db, &db.Spec.Containers[0], "id")
		require.Equal(t, begin, time.Now(), "never started")
	})
}

// An init container's CPUs are used again by the same pod. That it has ended is
// seen in no status yet.
func TestAnEndedInitContainerIsNotInTheWay(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		m := n.start()
		p := pod("p", "", container("app", "2"))
		p.Spec.InitContainers = []v1.Container{container("init", "2")}
		n.add(p)
		require.NoError(t, n.admit(m, p, false))
		require.Equal(t, m.GetExclusiveCPUs("p", "init"), m.GetExclusiveCPUs("p", "app"))
		r.exit(n.runContainer(m, r, p, "init"))
		begin := time.Now()
		n.runContainer(m, r, p, "app")
		require.Equal(t, begin, time.Now())
	})
}

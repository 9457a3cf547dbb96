// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// alone is an updater without a manager, where each container has its own
// target.
func alone(t *testing.T, test func(t *testing.T, u *updater, r *cri, own map[containerKey]cpuplan.Set)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
		own := map[containerKey]cpuplan.Set{}
		u := newUpdater(cpuplan.NewSet(0, 1, 2, 3), func() *targets { return &targets{own: own} })
		r := newCRI(t)
		u.start(ctx, r, 10*time.Second)
		test(t, u, r, own)
		stop()
		synctest.Wait()
	})
}

func (u *updater) addRunning(r *cri, key containerKey, id string, cpus cpuplan.Set) {
	u.answered(key, cpus)
	r.run(id, cpus.String())
	u.add(key, id)
}

func everyPod(string) bool { return true }

func TestUrgentContainersGoFirst(t *testing.T) {
	alone(t, func(t *testing.T, u *updater, r *cri, own map[containerKey]cpuplan.Set) {
		narrow, wide := cpuplan.NewSet(0), cpuplan.NewSet(0, 1)
		for i := range 100 {
			key := containerKey{fmt.Sprint(i), "c"}
			u.addRunning(r, key, fmt.Sprint(i), narrow)
			own[key] = wide
		}
		var order []string
		r.sent = func(id, _ string) { order = append(order, id) }
		unblock := r.block()
		u.settle(everyPod)
		synctest.Wait()
		require.Len(t, order, maxRuntimeCalls)
		for i := range 100 {
			if id := fmt.Sprint(i); !slices.Contains(order, id) {
				own[containerKey{id, "c"}] = cpuplan.NewSet(2)
				u.evict()
				unblock()
				synctest.Wait()
				require.Equal(t, id, order[maxRuntimeCalls])
				require.Len(t, order, 100, "and not again when its first turn comes")
				return
			}
		}
	})
}

// Even without asking the runtime, it can be seen from an update that a
// container is gone.
func TestAContainerThatTheRuntimeDoesNotFind(t *testing.T) {
	alone(t, func(t *testing.T, u *updater, r *cri, own map[containerKey]cpuplan.Set) {
		key := containerKey{"p", "c"}
		u.addRunning(r, key, "id", cpuplan.NewSet(0))
		delete(r.containers, "id")
		own[key] = cpuplan.NewSet(1)
		u.evict()
		synctest.Wait()
		requireEmpty(t, u)
		time.Sleep(time.Minute)
		updates, _ := r.counts()
		require.Equal(t, 1, updates)
	})
}

func TestAContainerThatTurnsUpAgainDuringItsCall(t *testing.T) {
	for _, how := range []string{"added", "observed"} {
		alone(t, func(t *testing.T, u *updater, r *cri, own map[containerKey]cpuplan.Set) {
			key := containerKey{"p", "c"}
			u.addRunning(r, key, "id", cpuplan.NewSet(0))
			own[key] = cpuplan.NewSet(1)
			unblock := r.block()
			u.evict()
			synctest.Wait()
			u.ended("id")
			if how == "added" {
				u.add(key, "id")
			} else {
				u.observe(key, "id")
			}
			own[key] = cpuplan.NewSet(2)
			u.evict()
			synctest.Wait()
			unblock()
			synctest.Wait()
			require.Equal(t, "2", r.cpus("id"))
		})
	}
}

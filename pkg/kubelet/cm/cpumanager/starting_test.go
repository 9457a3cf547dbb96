// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// A change that the runtime accepts while it starts the container may come to
// nothing. It is made again when the container runs, and until then others are
// kept off the CPUs that it may still have.
func TestAChangeThatIsLostDuringAStart(t *testing.T) {
	for _, tells := range []bool{true, false} {
		alone(t, func(t *testing.T, u *updater, r *cri, own map[containerKey]cpuplan.Set) {
			if tells {
				u.start(u.ctx, withStatus{r}, u.period)
			}
			shared, taker := containerKey{"shared", "c"}, containerKey{"taker", "c"}
			u.answered(shared, cpuplan.NewSet(0, 1))
			own[shared] = cpuplan.NewSet(0, 1)
			r.create("shared", "0-1")
			u.add(shared, "shared")
			require.True(t, u.awaitStart("shared", time.Second).none())
			u.letStart("shared")
			r.starts("shared")

			own[shared], own[taker] = cpuplan.NewSet(0), cpuplan.NewSet(1)
			u.evict()
			synctest.Wait()
			updates, _ := r.counts()
			require.Equal(t, 1, updates)
			u.answered(taker, cpuplan.NewSet(1))
			r.create("taker", "1")
			u.add(taker, "taker")
			require.False(t, u.awaitStart("taker", time.Second).none(), "the other may still run there")

			r.begins("shared")
			require.Equal(t, "0-1", r.cpus("shared"))
			if !tells {
				u.observe(shared, "shared")
				u.evict()
			}
			require.True(t, u.awaitStart("taker", 20*time.Second).none())
			require.Equal(t, "0", r.cpus("shared"))
			synctest.Wait()
			updates, _ = r.counts()
			require.Equal(t, 2, updates)
		})
	}
}

// A container that ends gets no CPUs that become free, and one that can never be
// changed does not keep the workers.
func TestContainersOfPodsThatAreGone(t *testing.T) {
	alone(t, func(t *testing.T, u *updater, r *cri, own map[containerKey]cpuplan.Set) {
		u.start(u.ctx, withStatus{r}, u.period)
		key := containerKey{"p", "c"}
		u.addRunning(r, key, "id", cpuplan.NewSet(0))
		own[key] = cpuplan.NewSet(0, 1)
		u.keepPods(nil)
		u.settle(everyPod)
		synctest.Wait()
		updates, _ := r.counts()
		require.Zero(t, updates)
		require.Equal(t, "0", r.cpus("id"))

		r.failWith(errors.New("cannot update a stopped container"))
		own[key] = cpuplan.NewSet(1)
		for range 100 {
			u.evict()
			synctest.Wait()
		}
		updates, _ = r.counts()
		require.LessOrEqual(t, updates, patience)
	})
}

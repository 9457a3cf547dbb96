// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
)

// underStatic leaves behind what a kubelet with the static policy does: two pods
// with CPUs, one without, and the next kubelet is to have the policy none.
func underStatic(n *node, r *cri) {
	m := n.start()
	db, one, shared := database("db"), pod("one", "", container("a", "2")), pod("shared", "", container("s", ""))
	n.add(db)
	n.add(one)
	n.add(shared)
	require.NoError(n.t, n.admit(m, db, true))
	require.NoError(n.t, n.admit(m, one, false))
	for _, name := range []string{"metrics-exporter", "backup-agent", "database"} {
		n.runContainer(m, r, db, name)
	}
	n.runContainer(m, r, one, "a")
	n.runContainer(m, r, shared, "s")
	n.before = containermap.NewContainerMap()
	for _, c := range [][2]string{{"db", "metrics-exporter"}, {"db", "backup-agent"}, {"db", "database"}, {"one", "a"}, {"shared", "s"}} {
		n.before.Add(c[0], c[1], c[0]+"-"+c[1])
	}
	n.before.Add("one", "a", "one-a-ended")
	r.run("one-a-ended", "3")
	r.exit("one-a-ended")
	n.stop()
	synctest.Wait()
	n.policy = PolicyNone
	n.setSilent(false)
}

var pinned = []string{"db-metrics-exporter", "db-backup-agent", "db-database", "one-a", "shared-s"}

// listed is what the state file lists, and for which policy.
func listed(n *node) (policy string, content *state.Content) {
	logger, _ := ktesting.NewTestContext(n.t)
	store, err := state.Open(logger, n.dir, stateFileName, string(PolicyNone), nil)
	require.NoError(n.t, err)
	return policyInFile(n), store.Content()
}

func policyInFile(n *node) string {
	var fields struct {
		PolicyName string `json:"policyName"`
	}
	require.NoError(n.t, json.Unmarshal([]byte(n.file()), &fields))
	return fields.PolicyName
}

func TestFromStaticToNone(t *testing.T) {
	for _, tells := range []bool{true, false} {
		t.Run(fmt.Sprintf("status=%t", tells), func(t *testing.T) {
			inTime(t, func(t *testing.T, n *node, r *cri) {
				if !tells {
					n.runtime = r
				}
				underStatic(n, r)
				m := n.start()
				require.Empty(t, m.GetCPUAffinity("db", "database").String())
				require.Empty(t, m.GetExclusiveCPUs("db", "database").String())
				require.Empty(t, m.State().GetCPUAssignments())
				require.EqualValues(t, "host", m.GetResourceIsolationLevel(n.pods[0], &n.pods[0].Spec.Containers[0]))
				policy, content := listed(n)
				require.Equal(t, "none", policy)
				require.Len(t, content.Assignments, 2)

				time.Sleep(25 * time.Second)
				synctest.Wait()
				for _, id := range pinned {
					require.Equal(t, "0-15", r.cpus(id), id)
				}
				require.Equal(t, "3", r.cpus("one-a-ended"))
				policy, content = listed(n)
				require.Equal(t, "none", policy)
				require.False(t, m.confines(content))
				requireEmpty(t, m.updater)

				// Then the policy costs nothing.
				updates, statuses := r.counts()
				time.Sleep(time.Minute)
				logger, _ := ktesting.NewTestContext(t)
				m.AddContainer(logger, n.pods[0], &n.pods[0].Spec.Containers[0], "again")
				requireEmpty(t, m.updater)
				n.start()
				time.Sleep(time.Minute)
				u, s := r.counts()
				require.Equal(t, []int{updates, statuses}, []int{u, s})
			})
		})
	}
}

// A file that tells nothing any more does not leave containers bound to CPUs, even
// if the kubelet is killed meanwhile.
func TestFromStaticToNoneWithADamagedFile(t *testing.T) {
	for _, text := range []string{"", "gone"} {
		inTime(t, func(t *testing.T, n *node, r *cri) {
			n.runtime = withStatus{r}
			underStatic(n, r)
			path := filepath.Join(n.dir, stateFileName)
			require.NoError(t, os.Remove(path))
			if text != "gone" {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			r.failWith(fmt.Errorf("the runtime is away"))
			if text == "gone" {
				r.failWith(nil)
			}
			n.start()
			if text != "gone" {
				time.Sleep(25 * time.Second)
				n.stop()
				synctest.Wait()
				r.failWith(nil)
				n.start()
			}
			time.Sleep(25 * time.Second)
			synctest.Wait()
			for _, id := range pinned {
				require.Equal(t, "0-15", r.cpus(id), id)
			}
			policy, _ := listed(n)
			require.Equal(t, "none", policy)
		})
	}
}

func TestAKillBeforeAllAreReleased(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		underStatic(n, r)
		file := ""
		for range 3 {
			r.failWith(fmt.Errorf("the runtime is away"))
			n.start()
			time.Sleep(25 * time.Second)
			_, content := listed(n)
			require.Len(t, content.Assignments, 2)
			if file != "" {
				require.Equal(t, file, n.file())
			}
			file = n.file()
		}
		r.failWith(nil)
		time.Sleep(25 * time.Second)
		for _, id := range pinned {
			require.Equal(t, "0-15", r.cpus(id), id)
		}
		_, content := listed(n)
		require.Empty(t, content.Assignments)
	})
}

func TestBackToStaticBeforeAllAreReleased(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		underStatic(n, r)
		r.fails = func(id string) error {
			if id == "shared-s" {
				return fmt.Errorf("not this one")
			}
			return nil
		}
		n.start()
		time.Sleep(25 * time.Second)
		require.Equal(t, "0-15", r.cpus("db-database"))
		r.failWith(nil)

		n.policy = PolicyStatic
		m := n.start()
		require.Equal(t, "1-2,9-10", m.GetExclusiveCPUs("db", "database").String(), "as if nothing had been changed")
		require.NoError(t, n.admit(m, n.pods[0], true))
		time.Sleep(25 * time.Second)
		for _, c := range [][2]string{{"db", "database"}, {"db", "backup-agent"}, {"one", "a"}, {"shared", "s"}} {
			require.Equal(t, m.GetCPUAffinity(c[0], c[1]).String(), r.cpus(c[0]+"-"+c[1]))
		}
		require.Equal(t, "static", policyInFile(n))
	})
}

func TestPodsThatEndDuringTheRelease(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		underStatic(n, r)
		r.failWith(fmt.Errorf("the runtime is away"))
		m := n.start()
		time.Sleep(5 * time.Second)
		// One is started again, one ends, one goes.
		db := n.pods[0]
		r.exit("db-database")
		logger, _ := ktesting.NewTestContext(t)
		r.create("db-database-2", "")
		m.AddContainer(logger, db, &db.Spec.Containers[0], "db-database-2")
		r.exit("one-a")
		r.exit("shared-s")
		n.remove("one")
		n.remove("shared")
		r.failWith(nil)
		n.setSilent(true) // there are no statuses yet of pods that ran before
		time.Sleep(30 * time.Second)
		_, content := listed(n)
		require.NotEmpty(t, content.Assignments)
		n.setSilent(false)
		time.Sleep(30 * time.Second)
		_, content = listed(n)
		require.Empty(t, content.Assignments)
		require.Empty(t, r.cpus("db-database-2"), "it was created with all CPUs")
		require.Equal(t, "0-15", r.cpus("db-backup-agent"))
		requireEmpty(t, m.updater)
	})
}

func TestAStrictReservationIsReleasedToo(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		n.options = map[string]string{StrictCPUReservationOption: "true"}
		m := n.start()
		shared := pod("shared", "", container("s", ""))
		n.add(shared)
		id := n.runContainer(m, r, shared, "s")
		require.Equal(t, "1-7,9-15", r.cpus(id))
		n.before = containermap.NewContainerMap()
		n.before.Add("shared", "s", id)
		n.policy, n.options = PolicyNone, nil
		n.setSilent(false)
		n.start()
		time.Sleep(25 * time.Second)
		require.Equal(t, "0-15", r.cpus(id))
	})
}

func TestAReleaseOnAFullDisk(t *testing.T) {
	inTime(t, func(t *testing.T, n *node, r *cri) {
		underStatic(n, r)
		m := n.start()
		moved := n.dir + "-away"
		require.NoError(t, os.Rename(n.dir, moved))
		time.Sleep(25 * time.Second)
		require.True(t, m.releasing.Load())
		require.Equal(t, "0-15", r.cpus("db-database"))
		require.NoError(t, os.Rename(moved, n.dir))
		require.FileExists(t, filepath.Join(n.dir, stateFileName))
		time.Sleep(25 * time.Second)
		require.False(t, m.releasing.Load())
		_, content := listed(n)
		require.Empty(t, content.Assignments)
	})
}

// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
)

// TestEverythingComesBack has random pods come and go in all ways that there are,
// and then compares the node with one that never had any: both admit the same
// pod, and have the same state files after it and after it is gone.
func TestEverythingComesBack(t *testing.T) {
	probe := "probe cpu=6 memory=8Gi\nsidecar s\napp a cpu=3 memory=2Gi\napp b"
	for _, scope := range []string{"pod", "container"} {
		for _, policy := range []string{"none", "best-effort", "restricted", "single-numa-node"} {
			t.Run(scope+" "+policy, inBubble(func(t *testing.T) {
				newNode := func() *simnode.Node {
					n := simnode.New(t)
					n.Dir = fastDir(t)
					n.Info = simnode.Shape{Nodes: 2, Cores: 8, Threads: 2, Memory: resource.MustParse("32Gi"), Hugepages2Mi: 512}.MachineInfo()
					n.Scope, n.TopologyPolicy, n.ReservedCPUs = scope, policy, cpuset.New(0, 16)
					var err error
					n.Devices, err = n.ParseDevices([]string{"example.com/gpu@0", "example.com/gpu@1"})
					require.NoError(t, err)
					require.NoError(t, n.Start())
					return n
				}
				idle := newNode()
				want := lifeOf(t, idle, probe)

				r := &rogue{rand: rand.New(rand.NewPCG(uint64(len(scope)), uint64(len(policy)))), seen: map[string]int{}}
				for range 12 {
					n := newNode()
					for i := range 25 {
						r.step(t, n, i)
					}
					for _, pod := range n.Active() {
						r.end(t, n, pod)
					}
					require.Equal(t, want, lifeOf(t, n, probe))
					synctest.Wait()
					require.NoError(t, n.Start())
					require.Equal(t, want, lifeOf(t, n, probe), "after another start")
					n.Stop()
				}
				idle.Stop()
				for _, what := range []string{"admitted", "refused", "CPUs not recorded", "memory not recorded", "restart", "never started", "half started", "told", "not told"} {
					require.NotZero(t, r.seen[what], "%s: %v", what, r.seen)
				}
			}))
		}
	}
}

// inBubble runs the test in a bubble, where what the managers do in the background
// can be waited for: a kubelet that is replaced writes no more.
func inBubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// lifeOf admits the pod and ends it, and returns what there is in between and
// after. The managers look for pods that are gone when a pod is admitted that is
// to have something.
func lifeOf(t *testing.T, n *simnode.Node, text string) string {
	pod, err := simnode.ParsePod(text)
	require.NoError(t, err)
	n.Add(pod)
	result := n.Admit(pod)
	require.True(t, result.Admit, result.Message)
	synctest.Wait()
	var b strings.Builder
	b.WriteString(n.Files() + n.Describe(pod) + n.Affinities([]*v1.Pod{pod}))
	require.NoError(t, n.StartContainers(pod))
	require.NoError(t, n.End(pod.Name))
	synctest.Wait()
	b.WriteString(n.Files())
	return b.String()
}

// rogue does what may happen to pods.
type rogue struct {
	rand *rand.Rand
	seen map[string]int
}

func (r *rogue) pick(list ...string) string { return list[r.rand.IntN(len(list))] }

func (r *rogue) step(t *testing.T, n *simnode.Node, i int) {
	active := n.Active()
	switch r.rand.IntN(6) {
	case 0:
		r.seen["restart"]++
		synctest.Wait()
		require.NoError(t, n.Start())
		for _, pod := range active {
			if !n.Admit(pod).Admit {
				n.Vanish(pod.Name)
			}
		}
	case 1, 2:
		if len(active) > 0 {
			r.end(t, n, active[r.rand.IntN(len(active))])
		}
	default:
		r.admit(t, n, i)
	}
}

// admit admits a random pod, sometimes while a state file cannot be written.
func (r *rogue) admit(t *testing.T, n *simnode.Node, i int) {
	pod, err := simnode.ParsePod(r.pod(fmt.Sprint("p", i)))
	require.NoError(t, err)
	n.Add(pod)
	synctest.Wait()
	repair := func() {}
	switch r.rand.IntN(8) {
	case 0:
		r.seen["CPUs not recorded"]++
		repair = breakFile(t, n, "cpu_manager_state")
	case 1:
		r.seen["memory not recorded"]++
		repair = breakFile(t, n, "memory_manager_state")
	}
	result := n.Admit(pod)
	repair()
	if !result.Admit {
		r.seen["refused"]++
		require.NotContains(t, n.Files(), fmt.Sprintf("%q", pod.UID), result.Message)
		n.Remove(pod.Name)
		return
	}
	r.seen["admitted"]++
	started := 0
	for c := range simnode.Containers(pod) {
		if r.rand.IntN(4) == 0 {
			break
		}
		require.NoError(t, n.StartContainer(pod, c))
		started++
	}
	if started == 0 {
		r.seen["never started"]++
	} else if started < len(pod.Spec.InitContainers)+len(pod.Spec.Containers) {
		r.seen["half started"]++
	}
}

// end ends the pod, with the managers being told of its containers or not.
func (r *rogue) end(t *testing.T, n *simnode.Node, pod *v1.Pod) {
	if r.rand.IntN(2) == 0 {
		r.seen["told"]++
		require.NoError(t, n.End(pod.Name))
		return
	}
	r.seen["not told"]++
	n.Vanish(pod.Name)
}

func (r *rogue) pod(name string) string {
	var b strings.Builder
	b.WriteString(name)
	if r.rand.IntN(4) > 0 {
		fmt.Fprintf(&b, " cpu=%s memory=%s", r.pick("4", "6", "8", "3500m"), r.pick("4Gi", "8Gi", "20Gi"))
		if r.rand.IntN(3) == 0 {
			b.WriteString(" hugepages-2Mi=128Mi")
		}
	}
	b.WriteString("\n")
	for j := range r.rand.IntN(3) {
		fmt.Fprintf(&b, "%s i%d%s\n", r.pick("init", "sidecar"), j, r.pick("", " cpu=1 memory=1Gi", " cpu=2 memory=1Gi"))
	}
	for j := range 1 + r.rand.IntN(2) {
		fmt.Fprintf(&b, "app a%d%s%s\n", j, r.pick("", " cpu=1 memory=1Gi", " cpu=2 memory=2Gi", " cpu=500m memory=1Gi"), r.pick("", "", " example.com/gpu=1"))
	}
	return b.String()
}

// fastDir is a folder in memory, if there is one: files there need not be flushed.
func fastDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "podslice")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// breakFile lets the manager's state file not be replaced, for root too, by a
// folder where it writes the new one; the answer repairs it.
func breakFile(t *testing.T, n *simnode.Node, name string) func() {
	folder := filepath.Join(n.Dir, "."+name+".new")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "busy"), 0o755))
	return func() { require.NoError(t, os.RemoveAll(folder)) }
}

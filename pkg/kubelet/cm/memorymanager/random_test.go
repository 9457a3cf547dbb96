// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

func randomPod(r *rand.Rand, uid string) *v1.Pod {
	p := pod(uid)
	size := func() string { return fmt.Sprint(1+r.IntN(12), "Gi") }
	for i := range r.IntN(3) {
		switch r.IntN(4) {
		case 0:
			sidecar(fmt.Sprint("sidecar", i), "1", size())(p)
		case 1:
			sidecar(fmt.Sprint("sidecar", i), "", "")(p)
		default:
			initContainer(fmt.Sprint("init", i), "1", size())(p)
		}
	}
	for i := range 1 + r.IntN(2) {
		app(fmt.Sprint("app", i), "1", size())(p)
	}
	if r.IntN(2) == 0 {
		budget("8", fmt.Sprint(1+r.IntN(40), "Gi"))(p)
	}
	return p
}

func allContainers(p *v1.Pod) []v1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
}

// TestRandomLives runs random pods through the topology manager: they are
// admitted, start, end, the disk fails, the kubelet restarts. Whatever happens,
// admitting everything again after a restart leaves the file as it was.
func TestRandomLives(t *testing.T) {
	setGates(t, true)
	logger := klog.Logger{}
	admitted, refused := 0, 0
	for _, policy := range []string{"best-effort", "restricted", "single-numa-node"} {
		for _, scope := range []string{"container", "pod"} {
			r := rand.New(rand.NewPCG(7, uint64(admitted)))
			n := newNode(t, policy, scope)
			for step := range 60 {
				p := randomPod(r, fmt.Sprint("p", step))
				repair := func() {}
				if broken := r.IntN(10) == 0; broken {
					repair = n.breakDisk()
				}
				before := n.State().GetMemoryAssignments()
				if n.admit(p).Admit {
					admitted++
					for _, c := range allContainers(p)[:r.IntN(1+len(allContainers(p)))] {
						n.AddContainer(logger, p, &c, p.Name+c.Name)
					}
				} else {
					refused++
					for uid := range n.State().GetMemoryAssignments() {
						require.Contains(t, before, uid, "a refused pod keeps nothing")
					}
				}
				repair()
				for len(n.active) > 0 && r.IntN(3) == 0 {
					n.remove(n.active[r.IntN(len(n.active))])
				}
				if r.IntN(4) > 0 {
					continue
				}
				n.collect(logger, "")
				written := n.content()
				n.restart()
				for range 2 {
					for _, p := range n.active {
						n.mustAdmit(p)
					}
				}
				require.Equal(t, written, n.content())
			}
		}
	}
	t.Logf("%d pods admitted, %d refused", admitted, refused)
	require.Greater(t, admitted, 100)
	require.Greater(t, refused, 50)
}

// TestConcurrentUse is for the race detector: the kubelet reads, starts
// containers and collects while it admits.
func TestConcurrentUse(t *testing.T) {
	setGates(t, true)
	logger, _ := ktesting.NewTestContext(t)
	n := newNode(t, "best-effort", "pod")
	running := pod("running", initContainer("init", "1", "4Gi"), app("c", "1", "1Gi"))
	n.mustAdmit(running)
	pods := make([]*v1.Pod, 20)
	for i := range pods {
		pods[i] = pod(fmt.Sprint("p", i), budget("2", "2Gi"), sidecar("s", "", ""), app("c", "1", "1Gi"))
	}
	n.active = append(n.active, pods...) // not changed any more
	done := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			n.AddContainer(logger, running, &running.Spec.Containers[0], fmt.Sprint("id", i))
			n.GetMemoryNUMANodes(logger, running, &running.Spec.Containers[0])
			n.GetMemory(logger, "p1", "c")
			n.GetPodMemory("p1")
			n.State().GetMachineState()
			n.mu.Lock()
			n.collect(logger, "")
			n.mu.Unlock()
		}
	})
	for _, p := range pods {
		n.mustAdmit(p)
	}
	close(done)
	others.Wait()
	require.Len(t, n.State().GetPodMemoryAssignments(), len(pods))
}

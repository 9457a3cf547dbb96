// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
)

// fleet is a node on which pods come and go, containers end and are started
// again, and the kubelet is started again, while the runtime is slow and fails.
type fleet struct {
	*node
	r   *rand.Rand
	cri *cri
	m   *manager
	// pods is how many there have been.
	pods int
	// workers are the pods' workers in the kubelet.
	workers sync.WaitGroup

	// mu guards what follows.
	mu sync.Mutex
	// ids are the latest containers, by pod and name; old is what statuses said
	// before, since they lag behind.
	ids  map[containerKey]string
	old  map[types.UID]v1.PodStatus
	busy map[types.UID]bool
	made int
	lag  *rand.Rand
	// exclusive is how many starts on CPUs of a pod's own were in time.
	exclusive int
}

func names(pod *v1.Pod) []string {
	var names []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			names = append(names, c.Name)
		}
	}
	return names
}

// GetPodStatus is often that of a moment ago.
func (f *fleet) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lag.IntN(3) > 0 {
		if status, ok := f.old[uid]; ok {
			return status, true
		}
	}
	var status v1.PodStatus
	for key, id := range f.ids {
		if key.podUID != string(uid) {
			continue
		}
		s := v1.ContainerStatus{Name: key.name, ContainerID: "containerd://" + id}
		switch f.cri.state(id) {
		case runtimeapi.ContainerState_CONTAINER_RUNNING:
			s.State.Running = &v1.ContainerStateRunning{}
		case runtimeapi.ContainerState_CONTAINER_EXITED:
			s.State.Terminated = &v1.ContainerStateTerminated{ContainerID: s.ContainerID}
		default:
			s.State.Waiting = &v1.ContainerStateWaiting{}
		}
		status.ContainerStatuses = append(status.ContainerStatuses, s)
	}
	f.old[uid] = status
	return status, true
}

// sync starts the pod's containers that do not run, in the background.
func (f *fleet) sync(pod *v1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[pod.UID] {
		return
	}
	f.busy[pod.UID] = true
	m := f.m
	f.workers.Go(func() {
		for _, name := range names(pod) {
			f.runUnlessRunning(m, pod, name)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy[pod.UID] = false
	})
}

func (f *fleet) runUnlessRunning(m *manager, pod *v1.Pod, name string) {
	key := containerKey{string(pod.UID), name}
	f.mu.Lock()
	if id, ok := f.ids[key]; ok && f.cri.isRunning(id) || !f.isActive(pod) {
		f.mu.Unlock()
		return
	}
	f.made++
	id := fmt.Sprintf("id%d", f.made)
	f.cri.create(id, m.GetCPUAffinity(key.podUID, name).String())
	f.ids[key] = id
	f.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	begin := time.Now()
	f.startContainer(m, f.cri, pod, name, id)
	own, _ := m.State().GetCPUSet(key.podUID, name)
	if m.updater.ctx.Err() != nil || own.IsEmpty() || time.Since(begin) >= maxStartWait {
		return
	}
	// Containers in the pool of their pod share it.
	siblings := map[string]bool{}
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, id := range f.ids {
		siblings[id] = k.podUID == key.podUID
	}
	f.cri.mu.Lock()
	defer f.cri.mu.Unlock()
	f.exclusive++
	for other, c := range f.cri.containers {
		if c.state == runtimeapi.ContainerState_CONTAINER_RUNNING && !siblings[other] && !mustParse(c.cpus).Intersection(own).IsEmpty() {
			f.t.Errorf("%s of %s starts on %s while %s runs on %s", id, key, own, other, c.cpus)
		}
	}
}

func (f *fleet) isActive(pod *v1.Pod) bool { return slices.Contains(f.active(), pod) }

func (f *fleet) step() {
	pods := f.active()
	var any *v1.Pod
	if len(pods) > 0 {
		any = pods[f.r.IntN(len(pods))]
	}
	switch f.r.IntN(12) {
	case 0, 1, 2:
		if len(pods) > 20 {
			return
		}
		f.pods++
		uid := fmt.Sprintf("pod%d", f.pods)
		p, whole := pod(uid, "", container("s", "")), false
		switch f.r.IntN(3) {
		case 0:
			p, whole = database(uid), true
		case 1:
			p = pod(uid, "", container("a", "2"), container("b", "1"))
		}
		f.add(p)
		if err := f.admit(f.m, p, whole); err != nil {
			f.remove(uid)
			return
		}
		f.sync(p)
	case 3, 4:
		if any == nil {
			return
		}
		// It is not active from now on, and ends later.
		f.remove(string(any.UID))
		go func() {
			time.Sleep(time.Duration(len(any.Name)%3) * 10 * time.Second)
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, name := range names(any) {
				if id, ok := f.ids[containerKey{string(any.UID), name}]; ok {
					f.cri.exit(id)
				}
			}
		}()
	case 5, 6:
		if any == nil {
			return
		}
		f.mu.Lock()
		for _, name := range names(any) {
			if id, ok := f.ids[containerKey{string(any.UID), name}]; ok && f.r.IntN(2) == 0 && f.cri.isRunning(id) {
				f.cri.exit(id)
			}
		}
		f.mu.Unlock()
		f.sync(any)
	case 7:
		if f.r.IntN(4) == 0 {
			f.restart()
		}
	default:
		time.Sleep(time.Duration(f.r.IntN(3000)) * time.Millisecond)
	}
}

// restart is a new kubelet, which admits all pods again.
func (f *fleet) restart() {
	f.stop()
	f.workers.Wait()
	time.Sleep(time.Second) // the calls of the one before come to an end
	f.before = containermap.NewContainerMap()
	f.mu.Lock()
	for key, id := range f.ids {
		f.before.Add(key.podUID, key.name, id)
	}
	f.mu.Unlock()
	f.m = f.start()
	for _, p := range f.active() {
		require.NoError(f.t, f.admit(f.m, p, p.Spec.Resources != nil))
		f.sync(p)
	}
}

func TestRandomPods(t *testing.T) {
	for seed := range uint64(4) {
		inTime(t, func(t *testing.T, n *node, r *cri) { randomPods(t, n, r, seed) })
	}
}

func randomPods(t *testing.T, n *node, r *cri, seed uint64) {
	f := &fleet{
		node: n, r: rand.New(rand.NewPCG(seed, 3)), lag: rand.New(rand.NewPCG(seed, 5)), cri: r,
		ids: map[containerKey]string{}, old: map[types.UID]v1.PodStatus{}, busy: map[types.UID]bool{},
	}
	calls := rand.New(rand.NewPCG(seed, 4))
	r.delay = func() time.Duration { return time.Duration(calls.IntN(30)) * time.Millisecond }
	failing := true
	r.fails = func(string) error {
		if failing && calls.IntN(4) == 0 {
			return fmt.Errorf("no luck")
		}
		return nil
	}
	n.statuses, n.quiet = f, true
	f.m = f.start()
	for range 1000 {
		f.step()
	}
	r.mu.Lock()
	failing = false
	r.mu.Unlock()
	f.workers.Wait()
	for _, p := range f.active() {
		f.sync(p)
	}
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	running := 0
	for key, id := range f.ids {
		if r.isRunning(id) {
			running++
			require.Equal(t, f.m.updater.targets().of(key).String(), r.cpus(id), "%s of %s", id, key)
		}
	}
	updates, statuses := r.counts()
	t.Logf("seed %d: %d pods, %d containers, %d running at the end, %d updates, %d statuses, %d starts on exclusive CPUs", seed, f.pods, f.made, running, updates, statuses, f.exclusive)
	require.Greater(t, f.exclusive, 50)

	for _, p := range f.active() {
		f.remove(string(p.UID))
	}
	for _, id := range f.ids {
		r.exit(id)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	requireEmpty(t, f.m.updater)
	require.Empty(t, f.m.State().GetCPUAssignments())
}

// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// The node shared pool of a world has the number of its version in it, as bits
// from versionBit on, so that what is sent shows how old it is.
const (
	worldCPUs  = 64
	versionBit = 1000
)

func versionOf(cpus string) int {
	version := 0
	for _, cpu := range mustParse(cpus).UnsortedList() {
		if cpu >= versionBit {
			version |= 1 << (cpu - versionBit)
		}
	}
	return version
}

func mustParse(text string) cpuset.CPUSet {
	cpus, err := cpuset.Parse(text)
	if err != nil {
		panic(err)
	}
	return cpus
}

// world drives an updater by random events: CPUs become exclusive and free
// again, containers are created, started, started again and removed, while the
// runtime is slow and fails.
type world struct {
	t       *testing.T
	r       *rand.Rand
	runtime *cri
	tells   bool
	u       *updater
	current atomic.Pointer[targets]
	version int
	// owned are the CPUs of containers with CPUs of their own.
	owned map[containerKey]cpuplan.Set
	// ids is the current container of a name; alive those that run.
	ids   map[containerKey]string
	alive map[string]containerKey
	names int
	// oldest is the least version that may still be sent to a container.
	oldest map[string]int
	// settled has the CPUs of containers that started in time and run. Like the
	// runtime's containers, it is guarded by the runtime's lock.
	settled map[string]cpuset.CPUSet
	// exclusive and late are how many starts were checked, and were late.
	exclusive, late atomic.Int64
}

const worldLimit = 2 * time.Second

// publish gives out a new version of the targets.
func (w *world) publish() {
	w.version++
	t := &targets{content: &state.Content{}, own: map[containerKey]cpuplan.Set{}}
	var taken cpuplan.Set
	for key, cpus := range w.owned {
		t.own[key] = cpus
		taken = taken.Union(cpus)
	}
	shared := []int{worldCPUs}
	for cpu := range worldCPUs {
		if !taken.Contains(cpu) {
			shared = append(shared, cpu)
		}
	}
	for bit := range 20 {
		if w.version>>bit&1 == 1 {
			shared = append(shared, versionBit+bit)
		}
	}
	t.shared = cpuplan.NewSet(shared...)
	w.current.Store(t)
}

// start creates a container and starts it in the background.
func (w *world) start(key containerKey) {
	if old, ok := w.ids[key]; ok {
		w.end(old)
	}
	w.names++
	id := fmt.Sprintf("id%d", w.names)
	w.ids[key] = id
	w.alive[id] = key
	answer := w.current.Load().of(key)
	w.u.answered(key, answer)
	w.runtime.create(id, answer.String())
	// Others may come in between.
	time.Sleep(time.Duration(w.r.IntN(3)) * 10 * time.Millisecond)
	w.u.add(key, id)
	begin := time.Now()
	takes := time.Duration(w.r.IntN(3)) * 150 * time.Millisecond
	go func() {
		found := w.u.awaitStart(id, worldLimit)
		w.u.letStart(id)
		w.runtime.starts(id)
		// The runtime takes its time, in which changes come to nothing.
		time.Sleep(takes)
		w.started(id, key, found.none())
		// Without a runtime that tells, a pod status does, which lags.
		if time.Sleep(time.Second); !w.tells && w.runtime.isRunning(id) {
			w.u.observe(key, id)
		}
		if !found.none() {
			w.late.Add(1)
			if time.Since(begin) < worldLimit {
				w.t.Errorf("%s was not waited for until the deadline: %s", id, found)
			}
		}
	}()
}

// started lets the container run, unless it was given up meanwhile. If it was
// in time, nobody else may run on its CPUs now. That holds for as long as it has
// them, so other events may come between.
func (w *world) started(id string, key containerKey, inTime bool) {
	w.runtime.mu.Lock()
	defer w.runtime.mu.Unlock()
	c := w.runtime.containers[id]
	if c.state != runtimeapi.ContainerState_CONTAINER_CREATED {
		return
	}
	c.state, c.starting = runtimeapi.ContainerState_CONTAINER_RUNNING, false
	t := w.current.Load()
	if !inTime || !t.isOwn(key) {
		return
	}
	mine := fromPlan(t.of(key))
	if c.cpus != mine.String() {
		w.t.Errorf("%s starts on CPUs %s, not %s", id, c.cpus, mine)
	}
	for other, o := range w.runtime.containers {
		if o == c || o.state != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if both := mustParse(o.cpus).Intersection(mine); !both.IsEmpty() {
			w.t.Errorf("%s starts while %s runs on its CPUs %s", id, other, both)
		}
	}
	w.settled[id] = mine
	w.exclusive.Add(1)
}

// applied checks that no container is moved onto the CPUs of one that has begun
// to run there.
func (w *world) applied(id, cpus string) {
	for other, theirs := range w.settled {
		if both := mustParse(cpus).Intersection(theirs); other != id && !both.IsEmpty() {
			w.t.Errorf("%s is moved onto CPUs %s of %s, which runs", id, both, other)
		}
	}
}

func (w *world) end(id string) {
	w.runtime.exit(id)
	w.runtime.mu.Lock()
	delete(w.settled, id)
	w.runtime.mu.Unlock()
	delete(w.alive, id)
}

// sent checks that no outdated set is sent to a container after a newer one.
func (w *world) sent(id, cpus string) {
	version := versionOf(cpus)
	if version == 0 {
		return // its own CPUs
	}
	if version < w.oldest[id] {
		w.t.Errorf("%s was sent version %d after version %d", id, version, w.oldest[id])
	}
	w.oldest[id] = version
}

func (w *world) step() {
	what := w.r.IntN(10)
	if len(w.ids) > 80 {
		what = 5
	}
	switch what {
	case 0, 1: // a pod with CPUs of its own comes
		var free []int
		for cpu := range worldCPUs {
			if w.current.Load().shared.Contains(cpu) {
				free = append(free, cpu)
			}
		}
		if len(free) < 8 {
			return
		}
		w.r.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
		key := containerKey{fmt.Sprintf("own%d", w.names), "c"}
		w.owned[key] = cpuplan.NewSet(free[:1+w.r.IntN(6)]...)
		w.publish()
		go w.u.evict()
		w.start(key)
	case 2, 3: // a container of the shared pool comes
		w.start(containerKey{fmt.Sprintf("shared%d", w.names), "c"})
	case 4: // one is started again
		if key, ok := w.any(); ok {
			w.start(key)
		}
	case 5: // a pod goes
		if key, ok := w.any(); ok {
			w.end(w.ids[key])
			delete(w.ids, key)
			delete(w.owned, key)
			w.publish()
			w.keepPods()
		}
	case 6: // one ends, and is told of; it may be started again
		if key, ok := w.any(); ok {
			w.end(w.ids[key])
			w.u.ended(w.ids[key])
		}
	case 7: // a period is over; statuses lag behind
		for id, key := range w.alive {
			if w.runtime.isRunning(id) && w.r.IntN(20) == 0 {
				w.mistake(key, id)
			}
			// A status may lag, but never tells of what is still to come.
			if w.runtime.isRunning(id) && w.r.IntN(4) > 0 {
				w.u.observe(key, id)
			}
		}
		w.u.settle(func(string) bool { return true })
	default:
		time.Sleep(time.Duration(w.r.IntN(100)) * time.Millisecond)
	}
}

// mistake has a container forgotten that runs, and known again before anybody
// can go by that.
func (w *world) mistake(key containerKey, id string) {
	w.u.mu.Lock()
	defer w.u.mu.Unlock()
	if c, ok := w.u.containers[id]; ok {
		w.u.forget(c)
		w.u.track(key, id)
	}
}

func (w *world) any() (containerKey, bool) {
	keys := make([]containerKey, 0, len(w.ids))
	for key := range w.ids {
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return containerKey{}, false
	}
	slices.SortFunc(keys, func(a, b containerKey) int {
		return slices.Compare([]string{a.podUID, a.name}, []string{b.podUID, b.name})
	})
	return keys[w.r.IntN(len(keys))], true
}

func (w *world) keepPods() {
	active := map[string]bool{}
	for key := range w.ids {
		active[key.podUID] = true
	}
	w.u.keepPods(active)
}

func TestRandomEvents(t *testing.T) {
	steps := 3000
	if testing.Short() {
		steps = 300
	}
	for seed := range uint64(3) {
		for _, tells := range []bool{true, false} {
			t.Run(fmt.Sprintf("seed=%d/status=%t", seed, tells), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { randomEvents(t, seed, tells, steps) })
			})
		}
	}
}

func randomEvents(t *testing.T, seed uint64, tells bool, steps int) {
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer stop()
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 1)), runtime: newCRI(t), tells: tells,
		owned: map[containerKey]cpuplan.Set{}, ids: map[containerKey]string{}, alive: map[string]containerKey{}, oldest: map[string]int{}, settled: map[string]cpuset.CPUSet{},
	}
	calls := rand.New(rand.NewPCG(seed, 2))
	w.runtime.delay = func() time.Duration {
		if calls.IntN(1000) == 0 {
			return 2 * worldLimit
		}
		return time.Duration(calls.IntN(30)) * time.Millisecond
	}
	failing := true
	w.runtime.fails = func(string) error {
		if failing && calls.IntN(4) == 0 {
			return fmt.Errorf("no luck")
		}
		return nil
	}
	w.runtime.sent, w.runtime.applied = w.sent, w.applied
	w.publish()
	w.u = newUpdater(w.current.Load().shared, w.current.Load)
	var runtime runtimeService = w.runtime
	if tells {
		runtime = withStatus{w.runtime}
	}
	w.u.start(ctx, runtime, 10*time.Second)
	for range steps {
		w.step()
	}

	w.runtime.mu.Lock()
	failing = false
	w.runtime.mu.Unlock()
	time.Sleep(time.Minute)
	w.keepPods()
	w.u.settle(func(string) bool { return true })
	time.Sleep(time.Minute)
	synctest.Wait()
	running := 0
	for id, key := range w.alive {
		running++
		require.Equal(t, w.current.Load().of(key).String(), w.runtime.cpus(id), "container %s of %s", id, key.podUID)
	}
	require.Greater(t, running, 5)
	updates, _ := w.runtime.counts()
	t.Logf("%d containers, %d running at the end, %d updates, %d starts on exclusive CPUs, %d late starts", w.names, running, updates, w.exclusive.Load(), w.late.Load())
	require.Greater(t, int(w.exclusive.Load()), steps/60)

	for id := range w.alive {
		w.end(id)
	}
	w.u.keepPods(nil)
	w.u.settle(func(string) bool { return true })
	time.Sleep(time.Minute)
	synctest.Wait()
	requireEmpty(t, w.u)
}

// requireEmpty requires that nothing is left of any container.
func requireEmpty(t *testing.T, u *updater) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	require.Empty(t, u.containers)
	require.Empty(t, u.byKey)
	require.Empty(t, u.created)
	require.Empty(t, u.queues[later])
	require.Empty(t, u.queues[urgent])
	require.Zero(t, u.workers)
}

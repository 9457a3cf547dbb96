// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// An updater brings running containers onto the CPUs that are meant for them.
// Nothing else changes the cpuset of a container.
//
// It knows the containers that run, or are about to, by their IDs, and where
// each may run: on what the runtime accepted last and, from the moment that a
// call is made until one succeeds, also on what was sent. Where a container
// belongs it does not remember: it asks when it makes the call, and again when
// the call has returned. There is one call at a time for a container ID. So an
// outdated cpuset is never written after a newer one, and a cpuset is known to be
// applied only if the runtime said so.
//
// While a container is being started, not even then: the runtime may have read
// with what to start it, and accepts a change that comes to nothing. What was
// accepted meanwhile is sent again once the container runs.
//
// A container that may run outside of where it belongs is urgent: it may be on
// the exclusive CPUs of another. One that is kept from CPUs that have become
// free can wait for the next period.
type updater struct {
	// targets says where containers belong at the moment.
	targets func() *targets
	// all is where a container of which nothing is known may run.
	all cpuplan.Set

	// mu guards what follows. It is held for no call of the runtime.
	mu sync.Mutex
	// ctx, runtime and period are set by start. status is nil if the runtime
	// does not tell about containers.
	ctx     context.Context
	runtime runtimeService
	status  containerStatuses
	period  time.Duration

	containers map[string]*tracked
	byKey      map[containerKey][]*tracked
	// created has, for a container that is not known yet, what was answered
	// to whoever is creating it.
	created map[containerKey]createdWith

	queues  [3][]*tracked
	workers int
	// changed is closed when a container was moved or forgotten, or nothing is
	// left to do; there is a new one if anybody waits.
	changed chan struct{}
	waiters int
}

// containerStatuses is the part of the CRI by which the updater learns whether
// a container still runs, and on which CPUs.
type containerStatuses interface {
	ContainerStatus(ctx context.Context, containerID string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
}

// urgency is in which queue a container waits for a worker.
type urgency int

const (
	idle urgency = iota
	later
	urgent
)

// tracked is one container.
type tracked struct {
	id  string
	key containerKey
	// added is set for a container whose start went through this kubelet. No
	// other ID is the container's current one then.
	added bool
	// may is where it may run. If known is set, that is what the runtime
	// accepted last.
	may   cpuplan.Set
	known bool
	// check has the runtime asked about the container before it is changed. If
	// trust is set, what it says of the CPUs is believed: the container runs for
	// longer than this kubelet.
	check, trust bool
	// starting is set from when the container was let start until it is known to
	// run. accepted is what the runtime accepted meanwhile, and may have lost; it
	// is empty if that is nothing. polls counts how often was asked since.
	starting bool
	accepted cpuplan.Set
	polls    int
	// gone is set for a container of a pod that is not active: it is ending, and
	// gets no CPUs that it does not have.
	gone bool

	// inFlight is set during a call, and again if the container is to be looked
	// at once more even if that fails.
	inFlight, again bool
	// forgotten is set for a container that is only there until its call ends.
	forgotten bool
	queued    urgency
	failures  int
	retry     *time.Timer
}

// createdWith is the CPUs that a container was or is being created with. They
// are sure if there was only one answer.
type createdWith struct {
	cpus cpuplan.Set
	sure bool
}

func newUpdater(all cpuplan.Set, targets func() *targets) *updater {
	return &updater{
		targets: targets, all: all,
		containers: map[string]*tracked{},
		byKey:      map[containerKey][]*tracked{},
		created:    map[containerKey]createdWith{},
		changed:    make(chan struct{}),
	}
}

// start lets the updater make calls, until ctx is done.
func (u *updater) start(ctx context.Context, runtime runtimeService, period time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ctx, u.runtime, u.period = ctx, runtime, period
	u.status, _ = runtime.(containerStatuses)
}

// running reports whether calls can be made.
func (u *updater) running() bool { return u.ctx != nil && u.ctx.Err() == nil }

// answered remembers what a container is about to be created with. After
// different answers, it is not known which one was used.
func (u *updater) answered(key containerKey, cpus cpuplan.Set) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, asked := u.created[key]
	switch {
	case !asked:
		u.created[key] = createdWith{cpus, true}
	case !before.cpus.Equals(cpus):
		u.created[key] = createdWith{before.cpus.Union(cpus), false}
	}
}

// add tells of a container that was created and is to be started. It takes the
// place of others of its name.
func (u *updater) add(key containerKey, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forgetOthers(key, id)
	created, asked := u.created[key]
	delete(u.created, key)
	c, known := u.containers[id]
	if !known || c.forgotten {
		c = u.track(key, id)
		if asked && !created.cpus.IsEmpty() {
			c.may, c.known = created.cpus, created.sure
			c.check = !created.sure
		}
	}
	c.added = true
}

// observe tells of a container that runs according to a pod status. That lags
// behind what was added, and may be wrong about a container that was found: if
// the runtime can tell which of two it is, it is asked.
func (u *updater) observe(key containerKey, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	same := u.byKey[key]
	if len(same) == 1 && same[0].id == id {
		same[0].starting = false
		return
	}
	for _, c := range same {
		if c.added {
			return
		}
	}
	if u.status == nil {
		u.forgetOthers(key, id)
	}
	u.track(key, id)
	for _, c := range u.byKey[key] {
		c.check = true
	}
}

// found tells of a container that the runtime had when the kubelet started. It
// may have ended, and the runtime may have others of the same name.
func (u *updater) found(key containerKey, id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.track(key, id).trust = true
}

// track begins to know a container, of which nothing is known but its name.
func (u *updater) track(key containerKey, id string) *tracked {
	c, ok := u.containers[id]
	if ok && !c.forgotten {
		return c
	}
	if !ok {
		c = &tracked{id: id}
		u.containers[id] = c
	}
	c.key, c.may, c.known, c.check, c.added, c.forgotten = key, u.all, false, true, false, false
	c.trust, c.starting, c.accepted, c.polls, c.gone = false, false, cpuplan.Set{}, 0, false
	u.byKey[key] = append(u.byKey[key], c)
	return c
}

// letStart tells of a container that is started now.
func (u *updater) letStart(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c, ok := u.containers[id]; ok {
		c.starting = true
	}
}

// ended tells of a container that does not run any more.
func (u *updater) ended(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c, ok := u.containers[id]; ok {
		u.forget(c)
	}
}

// keepPods tells which pods are active. What was removed may still be ending,
// for as long as its grace period is: if the runtime tells about containers,
// those of other pods are kept until they have ended.
func (u *updater) keepPods(active map[string]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.containers {
		c.gone = !active[c.key.podUID]
		switch {
		case !c.gone:
		case u.status == nil:
			u.forget(c)
		default:
			c.check = true
		}
	}
	for key := range u.created {
		if !active[key.podUID] {
			delete(u.created, key)
		}
	}
}

// forgetAll ends everything that is known.
func (u *updater) forgetAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.containers {
		u.forget(c)
	}
	clear(u.created)
}

func (u *updater) forgetOthers(key containerKey, id string) {
	for _, c := range append([]*tracked(nil), u.byKey[key]...) {
		if c.id != id {
			u.forget(c)
		}
	}
}

// forget ends what is known of a container. While a call for it is in flight its
// ID stays, so that there is no second call if it should turn up again.
func (u *updater) forget(c *tracked) {
	if !c.forgotten {
		c.forgotten = true
		c.stopRetry()
		c.failures = 0
		rest := u.byKey[c.key][:0]
		for _, o := range u.byKey[c.key] {
			if o != c {
				rest = append(rest, o)
			}
		}
		if u.byKey[c.key] = rest; len(rest) == 0 {
			delete(u.byKey, c.key)
		}
		u.notify()
	}
	if !c.inFlight {
		delete(u.containers, c.id)
	}
}

func (c *tracked) stopRetry() {
	if c.retry != nil {
		c.retry.Stop()
		c.retry = nil
	}
}

// settled reports whether the container is where it belongs and nothing is to
// be asked about it. Without CPUs there is nothing that it could be moved to.
func (c *tracked) settled(target cpuplan.Set) bool {
	return !c.check && (target.IsEmpty() || c.known && c.may.Equals(target) || c.gone && !c.strays(target))
}

// strays reports whether the container may run where it does not belong.
func (c *tracked) strays(target cpuplan.Set) bool {
	return !target.IsEmpty() && !c.may.IsSubsetOf(target)
}

// notify wakes whoever waits for a change.
func (u *updater) notify() {
	if u.waiters > 0 {
		close(u.changed)
		u.changed = make(chan struct{})
		u.waiters = 0
	}
}

// wait returns what is closed at the next change. The caller holds the lock.
func (u *updater) wait() <-chan struct{} {
	u.waiters++
	return u.changed
}

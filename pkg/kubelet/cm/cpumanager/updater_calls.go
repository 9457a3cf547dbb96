// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"math/bits"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

const (
	// maxRuntimeCalls is how many calls of the runtime are made at a time: enough
	// to empty a shared pool quickly, and no burst after a start of the kubelet.
	maxRuntimeCalls = 16
	// firstRetry is how long after a failed call the next one comes. It doubles
	// with each failure, up to the reconcile period.
	firstRetry = 100 * time.Millisecond
	// patience is how many calls for a container of a pod that is gone may fail in
	// a row before it has to wait for its next retry even if its CPUs are wanted:
	// a runtime may call a container running that it cannot change any more.
	patience = 5
)

// evict has everything moved that may run where it does not belong. The time of
// a retry is not waited for.
func (u *updater) evict() {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.targets()
	for _, c := range u.containers {
		if c.strays(t.of(c.key)) {
			u.hurry(c)
		}
	}
}

// hurry has a worker look at the container now, unless it is ending and has
// failed too often.
func (u *updater) hurry(c *tracked) {
	if c.retry == nil || !c.gone || c.failures < patience {
		u.enqueue(c, urgent)
	}
}

// settle has everything brought in line, if it is in one of the pods for which
// may is true. What failed has its own time.
func (u *updater) settle(may func(podUID string) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.targets()
	for _, c := range u.containers {
		target := t.of(c.key)
		switch {
		case c.settled(target) || c.retry != nil || !may(c.key.podUID):
		case c.strays(target):
			u.enqueue(c, urgent)
		default:
			u.enqueue(c, later)
		}
	}
}

// isSettled reports whether all is as it should be.
func (u *updater) isSettled() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.targets()
	for _, c := range u.containers {
		if !c.forgotten && !c.settled(t.of(c.key)) {
			return false
		}
	}
	return true
}

// enqueue has a worker look at the container.
func (u *updater) enqueue(c *tracked, how urgency) {
	if c.forgotten || !u.running() {
		return
	}
	if c.inFlight {
		c.again = true
		return
	}
	if c.queued >= how {
		return
	}
	c.stopRetry()
	c.queued = how
	u.queues[how] = append(u.queues[how], c)
	if u.workers < maxRuntimeCalls {
		u.workers++
		go u.work()
	}
}

// next takes the container that has waited longest, the urgent ones first. One
// that became urgent while it waited is in both queues.
func (u *updater) next() *tracked {
	for _, how := range []urgency{urgent, later} {
		for len(u.queues[how]) > 0 {
			c := u.queues[how][0]
			u.queues[how] = u.queues[how][1:]
			if c.queued == how {
				c.queued = idle
				return c
			}
		}
		u.queues[how] = nil
	}
	return nil
}

// work makes calls until nothing is left to do.
func (u *updater) work() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := u.next(); c != nil; c = u.next() {
		u.serve(c)
	}
	u.workers--
	u.notify()
}

// serve brings one container in line, however often its target changes
// meanwhile. The caller holds the lock, which is released for each call.
func (u *updater) serve(c *tracked) {
	// Most that were let start a while ago run, and then nothing gets lost.
	c.check = c.check || c.starting
	for !c.forgotten && u.running() {
		if c.check {
			c.check = false
			if u.status != nil {
				u.ask(c)
				continue
			}
		}
		target := u.targets().of(c.key)
		if c.settled(target) {
			break
		}
		if c.starting && !c.accepted.IsEmpty() && c.accepted.Equals(target) {
			u.askLater(c)
			break
		}
		if !u.send(c, target) {
			break
		}
	}
	if c.forgotten && u.containers[c.id] == c {
		delete(u.containers, c.id)
	}
}

// askLater has the runtime asked whether the container has begun to run. Without
// one that tells, the pod's status will.
func (u *updater) askLater(c *tracked) {
	if u.status == nil || c.retry != nil {
		return
	}
	c.check = true
	delay := min(firstRetry<<min(c.polls, 20), u.period)
	c.polls++
	c.retry = time.AfterFunc(delay, func() { u.tryAgain(c) })
}

// ask learns from the runtime whether the container still runs and, if that is
// not known, on which CPUs. Of a container that was being started not long ago it
// tells the CPUs that it accepted, which may be lost.
func (u *updater) ask(c *tracked) {
	var report runtimeReport
	u.call(c, func() { report = u.report(c.id) })
	switch {
	case c.forgotten:
	case report.ended:
		u.forget(c)
	case !c.known && c.trust && !report.cpus.IsEmpty():
		c.may, c.known, c.trust = report.cpus, true, false
		u.notify()
	}
	if report.running {
		c.starting = false
	}
}

// send updates the container and reports whether to go on with it at once.
func (u *updater) send(c *tracked, target cpuplan.Set) bool {
	c.may, c.known, c.trust = c.may.Union(target), false, false
	starting := c.starting
	var err error
	var report runtimeReport
	u.call(c, func() {
		if err = updateContainerCPUSet(u.ctx, u.runtime, c.id, target); err == nil {
			return
		}
		if report.ended = crierrors.IsNotFound(err); !report.ended && u.status != nil {
			report = u.report(c.id)
		}
	})
	if c.forgotten {
		return false
	}
	logger := klog.LoggerWithValues(klog.FromContext(u.ctx), "podUID", c.key.podUID, "containerName", c.key.name, "containerID", c.id, "cpus", target)
	switch {
	case err == nil && (starting || c.starting):
		c.accepted, c.failures, c.again = target, 0, false
		return true
	case err == nil:
		c.may, c.known, c.failures, c.again = target, true, 0, false
		c.accepted, c.polls = cpuplan.Set{}, 0
		u.notify()
		logger.V(5).Info("Updated the cpuset of a container")
		return true
	case report.ended:
		logger.V(4).Info("Did not update the cpuset of a container that has ended", "err", err)
		u.forget(c)
		return false
	case !u.running():
		return false
	}
	c.failures++
	delay := min(firstRetry<<min(c.failures-1, 20), u.period)
	// A runtime that is away would fill the log with every retry of every
	// container: of a container's failures, the 1st, 2nd, 4th, 8th are errors.
	if bits.OnesCount(uint(c.failures)) == 1 {
		logger.Error(err, "Could not update the cpuset of a container, trying again", "failures", c.failures, "retryAfter", delay)
	} else {
		logger.V(4).Info("Could not update the cpuset of a container, trying again", "err", err, "failures", c.failures, "retryAfter", delay)
	}
	if c.again {
		c.again = false
		u.enqueue(c, urgent)
		return false
	}
	c.retry = time.AfterFunc(delay, func() { u.tryAgain(c) })
	return false
}

// call makes calls of the runtime for the container, without the lock.
func (u *updater) call(c *tracked, calls func()) {
	c.inFlight = true
	u.mu.Unlock()
	// If the runtime's client panics, the lock is what its caller expects.
	defer func() {
		u.mu.Lock()
		c.inFlight = false
	}()
	calls()
}

func (u *updater) tryAgain(c *tracked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c.retry = nil
	if c.strays(u.targets().of(c.key)) {
		u.enqueue(c, urgent)
	} else {
		u.enqueue(c, later)
	}
}

// runtimeReport is what the runtime says of a container.
type runtimeReport struct {
	running, ended bool
	// cpus is empty if the runtime did not say.
	cpus cpuplan.Set
}

func (u *updater) report(id string) runtimeReport {
	response, err := u.status.ContainerStatus(u.ctx, id, false)
	if err != nil {
		return runtimeReport{ended: crierrors.IsNotFound(err)}
	}
	status := response.GetStatus()
	report := runtimeReport{
		running: status.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING,
		ended:   status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED,
	}
	if cpus, err := cpuset.Parse(status.GetResources().GetLinux().GetCpusetCpus()); err == nil {
		report.cpus = toPlan(cpus)
	}
	return report
}

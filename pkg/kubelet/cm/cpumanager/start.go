// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// maxStartWait is how long the start of a container is held up until its CPUs
// are its own.
const maxStartWait = 2 * time.Second

// GetCPUAffinity implements Manager. The kubelet asks when it is about to create
// the container. What it is told may be outdated when the container starts.
func (m *manager) GetCPUAffinity(podUID, containerName string) cpuset.CPUSet {
	if m.node == nil {
		return m.content().GetCPUSetOrDefault(podUID, containerName)
	}
	t := m.targets()
	key := containerKey{podUID, containerName}
	m.updater.answered(key, t.of(key))
	return t.content.GetCPUSetOrDefault(podUID, containerName)
}

// AddContainer implements Manager. The container exists and is started when this
// returns. So it is corrected first if it was created with CPUs that are not its
// any more, and if it has CPUs that are kept from others, these are made to leave
// them. If that takes longer than maxStartWait, the container starts all the
// same: a runtime that fails for one container must not stop all others.
func (m *manager) AddContainer(logger klog.Logger, pod *v1.Pod, container *v1.Container, containerID string) {
	key := containerKey{string(pod.UID), container.Name}
	if m.node == nil {
		m.addReleased(key, containerID)
		return
	}
	m.mu.Lock()
	// Of one container, the latest ID counts.
	for id, err := m.containerMap.GetContainerID(key.podUID, key.name); err == nil; id, err = m.containerMap.GetContainerID(key.podUID, key.name) {
		m.containerMap.RemoveByContainerID(id)
	}
	m.containerMap.Add(key.podUID, key.name, containerID)
	m.mu.Unlock()
	m.updater.add(key, containerID)
	logger.V(4).Info("Added Container", "pod", klog.KObj(pod), "podUID", pod.UID, "containerName", container.Name, "containerID", containerID)

	begin := time.Now()
	obstacles := m.updater.awaitStart(containerID, m.startWait)
	waited := time.Since(begin)
	m.updater.letStart(containerID)
	startWaits.Observe(waited.Seconds())
	if obstacles.none() {
		return
	}
	unsettledStarts.Inc()
	logger.Error(nil, "Starting a container although its CPUs are not its own yet", "pod", klog.KObj(pod), "podUID", pod.UID,
		"containerName", container.Name, "containerID", containerID, "cpus", m.updater.targets().of(key),
		"waited", waited, "ownCPUSetOutdated", obstacles.self, "othersOnItsCPUs", obstacles.String())
}

// obstacles is what keeps a container from being started.
type obstacles struct {
	// self is set if the container itself would start on other CPUs than its own.
	self bool
	// others may run on its CPUs, although they do not belong there.
	others []obstacle
}

type obstacle struct {
	key  containerKey
	id   string
	cpus cpuplan.Set
}

func (o obstacles) none() bool { return !o.self && len(o.others) == 0 }

// String lists the other containers, and on which of the CPUs they may run.
func (o obstacles) String() string {
	list := make([]string, len(o.others))
	for i, other := range o.others {
		list[i] = fmt.Sprintf("%s/%s (%s): %s", other.key.podUID, other.key.name, other.id, other.cpus)
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// awaitStart returns when the container can be started, or after limit, with
// what is still in its way. It returns at once when no calls can be made.
func (u *updater) awaitStart(id string, limit time.Duration) obstacles {
	u.mu.Lock()
	defer u.mu.Unlock()
	var timeout <-chan time.Time
	for last := false; ; {
		c, ok := u.containers[id]
		if !ok || c.forgotten || !u.running() {
			return obstacles{}
		}
		found := u.obstacles(c, timeout == nil)
		if found.none() || last {
			return found
		}
		if timeout == nil {
			timer := time.NewTimer(limit)
			defer timer.Stop()
			timeout = timer.C
		}
		changed, stopped := u.wait(), u.ctx.Done()
		u.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			last = true
		case <-stopped:
		}
		u.mu.Lock()
	}
}

// obstacles finds what is in the way of a container's start. With move set, it
// has all that moved without waiting for the time of the next retry.
//
// A container that belongs where it overlaps is none: it would never leave. This
// is an init container that has ended, whose CPUs its pod uses again.
func (u *updater) obstacles(c *tracked, move bool) obstacles {
	t := u.targets()
	mine := t.of(c.key)
	var found obstacles
	if !c.settled(mine) {
		found.self = true
		if move {
			u.enqueue(c, urgent)
		}
	}
	if !t.isOwn(c.key) {
		return found
	}
	for _, o := range u.containers {
		if o == c || o.forgotten || !o.may.Overlaps(mine) {
			continue
		}
		target := t.of(o.key)
		if target.IsEmpty() {
			continue
		}
		if cpus := o.may.Difference(target).Intersection(mine); !cpus.IsEmpty() {
			found.others = append(found.others, obstacle{o.key, o.id, cpus})
			if move {
				u.hurry(o)
			}
		}
	}
	return found
}

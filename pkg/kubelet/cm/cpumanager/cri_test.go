// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// cri is a container runtime that does as told: slow, failing, or not at all. It
// checks what holds for every sequence of calls: one at a time for a container,
// and not too many in all.
type cri struct {
	t *testing.T

	mu         sync.Mutex
	containers map[string]*criContainer
	updates    int
	statuses   int
	flying     int
	peak       int
	// delay is how long a call takes; fails is what it comes to, and the change
	// may be made all the same.
	delay func() time.Duration
	fails func(id string) error
	// hold has calls wait until it is closed.
	hold chan struct{}
	// sent is told of every update when it arrives, applied when it is made.
	sent, applied func(id, cpus string)
}

type criContainer struct {
	state runtimeapi.ContainerState
	// cpus is where it runs. lost is what was accepted while it was being
	// started, which changes nothing and yet is what is told.
	cpus, lost string
	starting   bool
	flying     bool
	times      []time.Time
}

func newCRI(t *testing.T) *cri { return &cri{t: t, containers: map[string]*criContainer{}} }

// withStatus is a runtime that tells about containers, as the kubelet's does.
type withStatus struct{ *cri }

func (r *cri) create(id, cpus string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id] = &criContainer{state: runtimeapi.ContainerState_CONTAINER_CREATED, cpus: cpus}
}

func (r *cri) run(id, cpus string) {
	r.create(id, cpus)
	r.set(id, runtimeapi.ContainerState_CONTAINER_RUNNING)
}

func (r *cri) set(id string, state runtimeapi.ContainerState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id].state = state
}

// starts begins to start a container, with the CPUs that it has now.
func (r *cri) starts(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id].starting = true
}

// begins starts the container, unless it has been given up.
func (r *cri) begins(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c.state == runtimeapi.ContainerState_CONTAINER_CREATED {
		c.state, c.starting = runtimeapi.ContainerState_CONTAINER_RUNNING, false
	}
}

func (r *cri) exit(id string) { r.set(id, runtimeapi.ContainerState_CONTAINER_EXITED) }

func (r *cri) state(id string) runtimeapi.ContainerState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[id].state
}

func (r *cri) isRunning(id string) bool {
	return r.state(id) == runtimeapi.ContainerState_CONTAINER_RUNNING
}

func (r *cri) cpus(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containers[id].cpus
}

func (r *cri) counts() (updates, statuses int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updates, r.statuses
}

func (r *cri) failWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = func(string) error { return err }
}

// block has calls wait until the returned function is called.
func (r *cri) block() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	hold := make(chan struct{})
	r.hold = hold
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hold = nil
		close(hold)
	}
}

// begin is the part of a call before it does anything.
func (r *cri) begin(ctx context.Context, id string) (*criContainer, error) {
	r.mu.Lock()
	c := r.containers[id]
	r.flying++
	r.peak = max(r.peak, r.flying)
	if r.peak > maxRuntimeCalls {
		r.t.Errorf("%d calls at a time", r.peak)
	}
	if c != nil {
		if c.flying {
			r.t.Errorf("two calls for container %s", id)
		}
		c.flying = true
	}
	var delay time.Duration
	if r.delay != nil {
		delay = r.delay()
	}
	hold := r.hold
	r.mu.Unlock()
	var err error
	if delay > 0 {
		time.Sleep(delay)
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	r.mu.Lock()
	r.flying--
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "no container %s", id)
	}
	c.flying = false
	if err == nil && r.fails != nil {
		err = r.fails(id)
	}
	return c, err
}

func (r *cri) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error {
	r.mu.Lock()
	r.updates++
	if c := r.containers[id]; c != nil {
		c.times = append(c.times, time.Now())
	}
	if r.sent != nil {
		r.sent(id, resources.Linux.CpusetCpus)
	}
	r.mu.Unlock()
	c, err := r.begin(ctx, id)
	defer r.mu.Unlock()
	switch {
	case c == nil || err != nil:
		return err
	case c.state == runtimeapi.ContainerState_CONTAINER_EXITED:
		return fmt.Errorf("container %s is not running", id)
	}
	if c.starting {
		c.lost = resources.Linux.CpusetCpus
		return nil
	}
	c.cpus, c.lost = resources.Linux.CpusetCpus, ""
	if r.applied != nil {
		r.applied(id, c.cpus)
	}
	return nil
}

func (r withStatus) ContainerStatus(ctx context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	r.statuses++
	r.mu.Unlock()
	c, err := r.begin(ctx, id)
	defer r.mu.Unlock()
	if c == nil || err != nil {
		return nil, err
	}
	cpus := c.cpus
	if c.lost != "" {
		cpus = c.lost
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: id, State: c.state,
		Resources: &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: cpus}},
	}}, nil
}

// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/utils/cpuset"
)

// fakeRuntime knows the containers that run and their cpusets.
type fakeRuntime struct {
	mu      sync.Mutex
	cpusets map[string]string
	updates int
}

func newFakeRuntime() *fakeRuntime { return &fakeRuntime{cpusets: map[string]string{}} }

func (r *fakeRuntime) create(id string, cpus cpuset.CPUSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cpusets[id] = cpus.String()
}

func (r *fakeRuntime) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cpusets, id)
}

func (r *fakeRuntime) cpusetOf(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cpusets[id]
}

// updated is how many updates there were.
func (r *fakeRuntime) updated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.updates
}

// UpdateContainerResources is what managers call.
func (r *fakeRuntime) UpdateContainerResources(_ context.Context, id string, resources *runtimeapi.ContainerResources) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updates++
	if _, known := r.cpusets[id]; known {
		r.cpusets[id] = resources.Linux.CpusetCpus
	}
	return nil
}

// ContainerStatus is asked for by our CPU manager.
func (r *fakeRuntime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED}
	if cpus, known := r.cpusets[id]; known {
		status.State = runtimeapi.ContainerState_CONTAINER_RUNNING
		status.Resources = &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: cpus}}
	}
	return &runtimeapi.ContainerStatusResponse{Status: status}, nil
}

// GetPodStatus says that all containers of a started pod run.
func (n *node) GetPodStatus(uid types.UID) (status v1.PodStatus, known bool) {
	for _, pod := range n.active() {
		if pod.UID != uid || !n.runs(pod.Name) {
			continue
		}
		statuses := func(list []v1.Container) (all []v1.ContainerStatus) {
			for i := range list {
				all = append(all, v1.ContainerStatus{
					Name: list[i].Name, ContainerID: "containerd://" + containerID(pod, &list[i]),
					State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
				})
			}
			return all
		}
		status.InitContainerStatuses, status.ContainerStatuses = statuses(pod.Spec.InitContainers), statuses(pod.Spec.Containers)
		return status, true
	}
	return status, false
}

// running is the containers that the runtime has when a kubelet starts.
func (n *node) running() containermap.ContainerMap {
	containers := containermap.NewContainerMap()
	for _, pod := range n.active() {
		if n.runs(pod.Name) {
			for _, c := range containersOf(pod) {
				containers.Add(string(pod.UID), c.Name, containerID(pod, c))
			}
		}
	}
	return containers
}

// runsOn waits until the container runs on these CPUs only, or gives up.
func (n *node) runsOn(id string, cpus cpuset.CPUSet, patience time.Duration) (string, bool) {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		now, err := cpuset.Parse(strings.TrimSpace(n.runtime.cpusetOf(id)))
		must(err)
		if now.IsSubsetOf(cpus) || time.Now().After(end) {
			return now.String(), now.IsSubsetOf(cpus)
		}
	}
}

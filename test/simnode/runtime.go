// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"
)

// cri is the node's container runtime. It repeats what containers were bound to,
// as real ones do.
type cri struct{ mute }

// mute is one that only updates containers.
type mute struct{ n *Node }

func (n *Node) runtime() interface {
	UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error
} {
	if n.Mute {
		return mute{n}
	}
	return cri{mute{n}}
}

// bindingOf is what the kubelet creates a container with. The caller holds the
// lock.
func (n *Node) bindingOf(pod *v1.Pod, c *v1.Container) *runtimeapi.LinuxContainerResources {
	return &runtimeapi.LinuxContainerResources{
		CpusetCpus: n.CPU.State().GetCPUSetOrDefault(string(pod.UID), c.Name).String(),
		CpusetMems: cpuset.New(sets.List(n.Memory.GetMemoryNUMANodes(n.Logger, pod, c))...).String(),
	}
}

// Exit ends the pod's containers. The runtime has them still, and the kubelet has
// the pod, as after a reboot.
func (n *Node) Exit(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range n.containers[string(pod.UID)] {
		delete(n.runs, id)
	}
}

// forget removes the pod's containers. The caller holds the lock.
func (n *Node) forget(uid string) {
	for _, id := range n.containers[uid] {
		delete(n.runs, id)
	}
	delete(n.containers, uid)
}

func (m mute) UpdateContainerResources(_ context.Context, id string, resources *runtimeapi.ContainerResources) error {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	if c, ok := m.n.runs[id]; ok {
		c.CpusetCpus = resources.GetLinux().GetCpusetCpus()
	}
	return nil
}

func (r cri) ListContainers(_ context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	r.n.mu.Lock()
	defer r.n.mu.Unlock()
	var list []*runtimeapi.Container
	for uid, containers := range r.n.containers {
		for _, id := range containers {
			state := runtimeapi.ContainerState_CONTAINER_EXITED
			if r.n.runs[id] != nil {
				state = runtimeapi.ContainerState_CONTAINER_RUNNING
			}
			if filter.GetState() == nil || filter.GetState().GetState() == state {
				list = append(list, &runtimeapi.Container{Id: id, State: state, PodSandboxId: uid})
			}
		}
	}
	return list, nil
}

func (r cri) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.n.mu.Lock()
	defer r.n.mu.Unlock()
	c, ok := r.n.runs[id]
	if !ok {
		for _, containers := range r.n.containers {
			for _, known := range containers {
				if known == id {
					return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: id, State: runtimeapi.ContainerState_CONTAINER_EXITED}}, nil
				}
			}
		}
		return nil, status.Errorf(codes.NotFound, "no container %s", id)
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: id, State: runtimeapi.ContainerState_CONTAINER_RUNNING,
		Resources: &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: c.CpusetCpus, CpusetMems: c.CpusetMems}},
	}}, nil
}

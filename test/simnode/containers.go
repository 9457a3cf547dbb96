// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"errors"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
)

// Running is the containers that the runtime knows, ended ones included.
func (n *Node) Running() containermap.ContainerMap {
	n.mu.Lock()
	defer n.mu.Unlock()
	containers := containermap.NewContainerMap()
	for uid, ids := range n.containers {
		for name, id := range ids {
			containers.Add(uid, name, id)
		}
	}
	return containers
}

// ContainersOf is the pod's containers that the runtime knows, IDs by name.
func (n *Node) ContainersOf(pod *v1.Pod) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.containers[string(pod.UID)])
}

// Found notes a container that runs since before any kubelet of the node.
func (n *Node) Found(pod *v1.Pod, c *v1.Container) {
	n.mu.Lock()
	defer n.mu.Unlock()
	uid := string(pod.UID)
	if n.containers[uid] == nil {
		n.containers[uid] = map[string]string{}
	}
	id := fmt.Sprintf("%s-%s", uid, c.Name)
	n.containers[uid][c.Name] = id
	n.runs[id] = &runtimeapi.LinuxContainerResources{}
}

// StartContainer tells the managers of a container that is about to start; one
// of the same name is gone before.
func (n *Node) StartContainer(pod *v1.Pod, c *v1.Container) error {
	uid := string(pod.UID)
	n.mu.Lock()
	id := n.containers[uid][c.Name]
	n.mu.Unlock()
	if id != "" {
		if err := n.Topology.RemoveContainer(n.Logger, id); err != nil {
			return err
		}
		id += "-again"
	} else {
		id = fmt.Sprintf("%s-%s", uid, c.Name)
	}
	n.mu.Lock()
	if n.containers[uid] == nil {
		n.containers[uid] = map[string]string{}
	}
	n.containers[uid][c.Name] = id
	n.runs[id] = n.bindingOf(pod, c)
	n.mu.Unlock()
	n.CPU.AddContainer(n.Logger, pod, c, id)
	n.Memory.AddContainer(n.Logger, pod, c, id)
	n.Topology.AddContainer(n.Logger, pod, c, id)
	return nil
}

// StartContainers starts the pod's containers in the order of the spec.
func (n *Node) StartContainers(pod *v1.Pod) error {
	for c := range Containers(pod) {
		if err := n.StartContainer(pod, c); err != nil {
			return err
		}
	}
	return nil
}

// End is the end of a pod: its containers are removed, if any has been started,
// and then the pod itself. A kubelet tells only the topology manager of containers
// that have gone; the others find out when they look at the active pods. For that,
// see Vanish. An error does not keep the pod from ending.
func (n *Node) End(name string) error {
	n.removed = true
	var errs []error
	if pod := n.Pod(name); pod != nil {
		n.mu.Lock()
		ids := n.containers[string(pod.UID)]
		n.forget(string(pod.UID))
		n.mu.Unlock()
		for c := range Containers(pod) {
			if id := ids[c.Name]; id != "" {
				errs = append(errs, n.removeContainer(id))
			}
		}
	}
	n.Remove(name)
	return errors.Join(errs...)
}

// Vanish is the end of a pod of which the managers are not told.
func (n *Node) Vanish(name string) {
	n.removed = true
	if pod := n.Pod(name); pod != nil {
		n.mu.Lock()
		n.forget(string(pod.UID))
		n.mu.Unlock()
	}
	n.Remove(name)
}

func (n *Node) removeContainer(id string) error {
	if err := n.CPU.RemoveContainer(n.Logger, id); err != nil {
		return err
	}
	if err := n.Memory.RemoveContainer(n.Logger, id); err != nil {
		return err
	}
	return n.Topology.RemoveContainer(n.Logger, id)
}

// LoseContainers lets the runtime forget the pod's containers, of which nobody is
// told.
func (n *Node) LoseContainers(pod *v1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forget(string(pod.UID))
}

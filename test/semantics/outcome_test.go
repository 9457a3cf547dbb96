// SPDX-License-Identifier: Apache-2.0

package semantics

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/test/simnode"
)

// outcome is what a pod was given, as the document writes it: a line for the pod
// as a whole and one for each container, ephemeral ones last.
type outcome struct{ cpus, memory []string }

// outcomeOf asks the managers about the pod. What they answer in several ways
// must agree.
func outcomeOf(n *simnode.Node, pod *v1.Pod) (o outcome, err error) {
	uid := string(pod.UID)
	o.cpus = append(o.cpus, orNothing(whichCPUs(n, n.CPU.GetPodCPUs(uid))))
	o.memory = append(o.memory, orNothing(blocks(n.Memory.GetPodMemory(uid))))
	for c := range all(pod) {
		cpus, level := n.CPU.GetCPUAffinity(uid, c.Name), n.CPU.GetResourceIsolationLevel(pod, c)
		text := string(level)
		if level != cmqos.ResourceIsolationHost {
			text += " " + whichCPUs(n, cpus)
		} else if shared := n.CPU.State().GetDefaultCPUSet(); !cpus.Equals(shared) || shared.IsEmpty() != (n.CPUPolicy == "none") {
			return o, fmt.Errorf("%s runs on %s, the node shared pool is %s", c.Name, cpus, shared)
		}
		exclusive := n.CPU.GetExclusiveCPUs(uid, c.Name)
		if level == cmqos.ResourceIsolationContainer && !exclusive.Equals(cpus) || level == cmqos.ResourceIsolationHost && !exclusive.IsEmpty() {
			return o, fmt.Errorf("%s has %s at level %s, and %s are reported as its own", c.Name, cpus, level, exclusive)
		}
		o.cpus = append(o.cpus, text)

		nodes, level := n.Memory.GetMemoryNUMANodes(n.Logger, pod, c), n.Memory.GetResourceIsolationLevel(pod, c)
		held := n.Memory.GetMemory(n.Logger, uid, c.Name)
		text = string(level)
		if level != cmqos.ResourceIsolationHost {
			text += " " + blocks(held)
		} else if len(nodes) > 0 || len(held) > 0 {
			return o, fmt.Errorf("%s has %v on %v and is said to be unbound", c.Name, held, nodes)
		}
		if bound := onNodes(nodes.UnsortedList()); len(nodes) > 0 && !strings.HasSuffix(text, bound) {
			return o, fmt.Errorf("%s is bound to %s and holds %v", c.Name, bound, held)
		}
		o.memory = append(o.memory, text)
	}
	return o, nil
}

// all is the pod's containers, ephemeral ones last.
func all(pod *v1.Pod) func(func(*v1.Container) bool) {
	return func(yield func(*v1.Container) bool) {
		for c := range simnode.Containers(pod) {
			if !yield(c) {
				return
			}
		}
		simnode.Ephemeral(pod)(yield)
	}
}

func orNothing(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// whichCPUs is how many CPUs there are, and on which NUMA nodes.
func whichCPUs(n *simnode.Node, cpus cpuset.CPUSet) string {
	if cpus.IsEmpty() {
		return ""
	}
	var nodes []int
	for id, of := range simnode.Units(n.ReadTopology(), simnode.ByNode) {
		if !of.Intersection(cpus).IsEmpty() {
			nodes = append(nodes, id)
		}
	}
	return fmt.Sprintf("%d %s", cpus.Size(), onNodes(nodes))
}

// blocks is how much there is of each kind of memory, all on the same nodes.
func blocks(list []state.Block) string {
	var amounts []string
	var nodes []int
	for _, b := range list {
		amount := resource.NewQuantity(int64(b.Size), resource.BinarySI).String()
		if b.Type != v1.ResourceMemory {
			amount = string(b.Type) + "=" + amount
		}
		amounts = append(amounts, amount)
		nodes = append(nodes, b.NUMAAffinity...)
	}
	if len(list) == 0 {
		return ""
	}
	return strings.Join(amounts, " ") + " " + onNodes(nodes)
}

func onNodes(nodes []int) string { return "@" + cpuset.New(nodes...).String() }

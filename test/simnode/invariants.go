// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
)

// Holdings are the CPUs of one pod.
type Holdings struct {
	// All is what the pod keeps from other pods.
	All cpuset.CPUSet
	// Slices are what containers that run at the same time keep from others.
	Slices map[string]cpuset.CPUSet
	Pool   cpuset.CPUSet
}

// HoldingsOf is the CPUs of the pod.
func (n *Node) HoldingsOf(pod *v1.Pod) Holdings {
	uid := string(pod.UID)
	state := n.CPU.State()
	h := Holdings{All: n.CPU.GetPodCPUs(uid), Slices: map[string]cpuset.CPUSet{}}
	for l, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			level := n.CPU.GetResourceIsolationLevel(pod, c)
			if level == cmqos.ResourceIsolationHost {
				continue
			}
			cpus, _ := state.GetCPUSet(uid, c.Name)
			h.All = h.All.Union(cpus)
			if standardInit := l == 0 && c.RestartPolicy == nil; standardInit {
				continue // it has ended when others run
			}
			if level == cmqos.ResourceIsolationContainer {
				h.Slices[c.Name] = cpus
			} else {
				h.Pool = h.Pool.Union(cpus)
			}
		}
	}
	return h
}

// CheckInvariants says what is wrong, after whatever was done to the node, unless:
//
//   - what a pod has are online CPUs, none is another pod's or in the node
//     shared pool;
//   - in a pod no CPU is in two slices, or in a slice and the pod shared pool;
//   - slices of pods that were admitted under full-pcpus-only share no core with
//     each other or the pod shared pool, as long as no thread of theirs has gone
//     offline or come online;
//   - the node shared pool is all that no pod has, but for the CPUs of a strict
//     reservation as long as others are left. A pod that is gone has its CPUs
//     until the managers look at the active pods again, when a pod is admitted.
//     Under the policy none there is no such pool.
//
// That reserved CPUs are not given out is checked where pods are admitted, since
// a reservation that grows takes no running pod's CPUs.
func (n *Node) CheckInvariants() error {
	if n == nil || n.CPU == nil {
		return nil
	}
	taken := map[string]cpuset.CPUSet{}
	free := n.CPU.GetAllCPUs()
	for _, pod := range n.Active() {
		h := n.HoldingsOf(pod)
		if !h.All.IsSubsetOf(n.CPU.GetAllCPUs()) {
			return fmt.Errorf("pod %s has %s, online are %s", pod.Name, h.All, n.CPU.GetAllCPUs())
		}
		parts := map[string]cpuset.CPUSet{"the pod shared pool": h.Pool}
		for name, cpus := range h.Slices {
			parts["container "+name] = cpus
		}
		if err := disjoint(parts); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		taken["pod "+pod.Name] = h.All
		if whole := n.siblings(h.All); n.wholeCores[pod.Name] && whole.Equals(h.All) {
			for name, cpus := range parts {
				parts[name] = n.siblings(cpus)
			}
			if err := disjoint(parts); err != nil {
				return fmt.Errorf("cores of pod %s: %w", pod.Name, err)
			}
		}
		free = free.Difference(h.All)
	}
	if err := disjoint(taken); err != nil {
		return err
	}
	if n.CPUPolicy == string(cpumanager.PolicyNone) {
		return nil // it gives out nothing and has no pool
	}
	if n.CPUOptions[cpumanager.StrictCPUReservationOption] == "true" && !free.IsSubsetOf(n.Reserved()) {
		free = free.Difference(n.Reserved())
	}
	if n.CPUPolicy == string(cpumanager.PolicyNone) {
		return nil // which keeps no pool
	}
	shared := n.CPU.State().GetDefaultCPUSet()
	if !free.IsEmpty() && !n.removed && !free.Equals(shared) {
		return fmt.Errorf("the node shared pool is %s, no pod has %s", shared, free)
	}
	return nil
}

// CheckAdmitted says what is wrong if a pod that has just been admitted has
// reserved CPUs or, under full-pcpus-only, parts of cores.
func (n *Node) CheckAdmitted(pod *v1.Pod) error {
	h := n.HoldingsOf(pod)
	if !h.All.Intersection(n.Reserved()).IsEmpty() {
		return fmt.Errorf("pod %s has %s, reserved are %s", pod.Name, h.All, n.Reserved())
	}
	if whole := n.siblings(h.All); n.wholeCores[pod.Name] && !whole.Equals(h.All) {
		return fmt.Errorf("pod %s has %s, parts of the cores %s", pod.Name, h.All, whole)
	}
	return nil
}

func disjoint(sets map[string]cpuset.CPUSet) error {
	for a, x := range sets {
		for b, y := range sets {
			if a < b && !x.Intersection(y).IsEmpty() {
				return fmt.Errorf("%s has %s, %s has %s", a, x, b, y)
			}
		}
	}
	return nil
}

// siblings is the CPUs with all that are on their cores.
func (n *Node) siblings(cpus cpuset.CPUSet) cpuset.CPUSet {
	all := cpus
	for _, core := range Units(n.ReadTopology(), ByCore) {
		if !core.Intersection(cpus).IsEmpty() {
			all = all.Union(core)
		}
	}
	return all
}

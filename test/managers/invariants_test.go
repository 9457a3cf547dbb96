// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
)

// holdings are the CPUs of one pod.
type holdings struct {
	// all is what the pod keeps from other pods.
	all cpuset.CPUSet
	// slices are what containers that run at the same time keep from others.
	slices map[string]cpuset.CPUSet
	pool   cpuset.CPUSet
}

func (n *node) holdingsOf(pod *v1.Pod) holdings {
	uid := string(pod.UID)
	h := holdings{all: n.cpu.GetPodCPUs(uid), slices: map[string]cpuset.CPUSet{}}
	for l, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			cpus := n.cpu.GetCPUAffinity(uid, c.Name)
			level := n.cpu.GetResourceIsolationLevel(pod, c)
			if level == cmqos.ResourceIsolationHost {
				continue
			}
			h.all = h.all.Union(cpus)
			if standardInit := l == 0 && c.RestartPolicy == nil; standardInit {
				continue // it has ended when others run
			}
			if level == cmqos.ResourceIsolationContainer {
				h.slices[c.Name] = cpus
			} else {
				h.pool = h.pool.Union(cpus)
			}
		}
	}
	return h
}

// checkInvariants fails the test unless, after whatever a script did:
//
//   - what a pod has are online CPUs, none is another pod's or in the node
//     shared pool;
//   - in a pod no CPU is in two slices, or in a slice and the pod shared pool;
//   - pods that were admitted under full-pcpus-only share no core with another
//     pod, and their slices none with each other or the pod shared pool;
//   - the node shared pool is all that no pod has, but for the CPUs of a strict
//     reservation as long as others are left. A pod that is gone has its CPUs
//     until the managers look at the active pods again, at the next admission.
//
// That reserved CPUs are not given out is checked where pods are admitted, since
// a reservation that grows takes no running pod's CPUs.
func (n *node) checkInvariants(where string) {
	if n == nil || n.cpu == nil {
		return
	}
	taken := map[string]cpuset.CPUSet{}
	free := n.cpu.GetAllCPUs()
	for _, pod := range n.active() {
		h := n.holdingsOf(pod)
		require.Truef(n.t, h.all.IsSubsetOf(n.cpu.GetAllCPUs()), "%s: pod %s has %s, online are %s", where, pod.Name, h.all, n.cpu.GetAllCPUs())
		parts := map[string]cpuset.CPUSet{"the pod shared pool": h.pool}
		for name, cpus := range h.slices {
			parts["container "+name] = cpus
		}
		n.disjoint(where+": pod "+pod.Name, parts)
		taken["pod "+pod.Name] = h.all
		if n.wholeCores[pod.Name] {
			taken["pod "+pod.Name] = n.siblings(h.all)
			for name, cpus := range parts {
				parts[name] = n.siblings(cpus)
			}
			n.disjoint(where+": cores of pod "+pod.Name, parts)
		}
		free = free.Difference(h.all)
	}
	n.disjoint(where, taken)
	if n.cpuOptions[cpumanager.StrictCPUReservationOption] == "true" && !free.IsSubsetOf(n.reserved()) {
		free = free.Difference(n.reserved())
	}
	shared := n.cpu.State().GetDefaultCPUSet()
	if !free.IsEmpty() && !n.removed {
		require.Equalf(n.t, free.String(), shared.String(), "%s: the node shared pool", where)
	}
}

// checkAdmitted fails the test if a pod that has just been admitted has reserved
// CPUs or, under full-pcpus-only, parts of cores.
func (n *node) checkAdmitted(where string, pod *v1.Pod) {
	h := n.holdingsOf(pod)
	require.Truef(n.t, h.all.Intersection(n.reserved()).IsEmpty(), "%s: pod %s has %s, reserved are %s", where, pod.Name, h.all, n.reserved())
	if n.wholeCores[pod.Name] {
		require.Equalf(n.t, n.siblings(h.all).String(), h.all.String(), "%s: pod %s has parts of cores", where, pod.Name)
	}
}

func (n *node) disjoint(where string, sets map[string]cpuset.CPUSet) {
	for a, x := range sets {
		for b, y := range sets {
			if a < b {
				require.Truef(n.t, x.Intersection(y).IsEmpty(), "%s: %s has %s, %s has %s", where, a, x, b, y)
			}
		}
	}
}

// siblings is the CPUs with all that are on their cores.
func (n *node) siblings(cpus cpuset.CPUSet) cpuset.CPUSet {
	all := cpus
	for _, core := range units(n.readTopology(), byCore) {
		if !core.Intersection(cpus).IsEmpty() {
			all = all.Union(core)
		}
	}
	return all
}

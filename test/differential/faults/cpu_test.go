// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"

	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

// plain is a node with the gate off, a machine and options of the CPU manager;
// pods are placed by container.
func plain(m machine.Machine, reserved, policy string, options ...string) func(*settings) {
	return func(s *settings) {
		s.machine, s.reserved, s.policy, s.cpuOptions = m, reserved, policy, options
		s.gateOff, s.scope, s.memoryPolicy = true, "container", "None"
	}
}

// cpus is a container that asks for so many CPUs.
func cpus(pod string, count int) string {
	return fmt.Sprintf("%s; app a cpu=%d memory=64Mi", pod, count)
}

// has is the CPUs that a new pod with one container gets.
func (n *node) has(pod string, count int) cpuset.CPUSet {
	return n.exclusive(n.admit(cpus(pod, count)), "a")
}

// perNode counts CPUs by NUMA node.
func (n *node) perNode(set cpuset.CPUSet) map[int]int {
	count := map[int]int{}
	for _, c := range n.machine.CPUs {
		if set.Contains(c.ID) {
			count[c.Node]++
		}
	}
	return count
}

// splits lists the CPUs of the set whose siblings are not all in it.
func (n *node) splits(set cpuset.CPUSet) cpuset.CPUSet {
	cores := map[machine.CoreID][]int{}
	for _, c := range n.machine.CPUs {
		cores[c.CoreID()] = append(cores[c.CoreID()], c.ID)
	}
	var split []int
	for _, siblings := range cores {
		if own := set.Intersection(cpuset.New(siblings...)); own.Size() > 0 && own.Size() < len(siblings) {
			split = append(split, own.List()...)
		}
	}
	return cpuset.New(split...)
}

// twoCaches has 8 cores with 2 threads, and a cache for 4 cores each.
const twoCaches = `
name: two-caches
description: two caches
sources: [none]
nodes:
- {id: 0, memory: 16Gi}
cpus:
- {cpus: "0-3,8-11", threads: 2, siblings: apart, socket: 0, node: 0, cache: 0}
- {cpus: "4-7,12-15", threads: 2, siblings: apart, socket: 0, node: 0, cache: 1}
`

var cpuFaults = []fault{
	{
		name: "reserved-cpu-given-out-on-hybrid-machine",
		what: "on a machine with unequal cores a reserved CPU is given to a pod (140495)",
		ours: "judges every core by its own size",
		play: func(n *node) {
			n.begin(plain(fromCatalog("intel-i7-14700"), "0", "none"))
			got := n.has("p", 2)
			n.want(!got.Contains(0), "the pod gets CPUs %s, and 0 is reserved", got)
		},
	},
	{
		name: "reserved-cpu-given-out-with-offline-sibling",
		what: "the same where a sibling is offline (124066)",
		ours: "judges every core by its own size",
		play: func(n *node) {
			m, err := grid(1, 1, 4, 2, 16).Without(cpuset.New(7))
			must(err)
			n.begin(plain(m, "0", "none"))
			got := n.has("p", 2)
			n.want(!got.Contains(0), "the pod gets CPUs %s, and 0 is reserved", got)
		},
	},
	{
		name: "init-container-cpus-are-not-reused",
		what: "an init container's CPU is not used again by the pod's other containers, so that a pod is refused for which there is room (112228)",
		ours: "chooses an init container's CPUs out of those that the containers after it get",
		play: func(n *node) {
			n.begin(plain(grid(1, 1, 4, 2, 16), "0", "none"))
			for _, name := range []string{"p", "q", "r"} {
				n.admit(name + "; init i cpu=1 memory=64Mi; app a cpu=2 memory=64Mi")
			}
			n.want(n.sharedPool().Size() == 2, "three pods of 2 CPUs leave %s of 8 CPUs", cpuText(n.sharedPool()))
		},
	},
	{
		name: "init-container-pins-pod-to-full-node",
		what: "an init container is put on a NUMA node where the pod's main container does not fit, and the pod is refused (94220, 123816)",
		ours: "puts it where the containers after it fit",
		play: func(n *node) {
			n.begin(plain(grid(2, 1, 8, 1, 16), "0", "single-numa-node"))
			n.has("x", 4)
			n.admit("p; init i cpu=1 memory=64Mi; app a cpu=7 memory=64Mi")
		},
	},
	{
		name: "cache-with-room-is-passed-over",
		what: "prefer-align-cpus-by-uncorecache passes over a cache that has room (137315)",
		ours: "takes what is free in a cache",
		play: func(n *node) {
			n.begin(plain(parsed(twoCaches), "0,8", "none", "prefer-align-cpus-by-uncorecache"))
			n.holds("x", cpuset.New(1, 2, 4, 6, 9, 10))
			got := n.has("p", 5)
			inOne := got.IsSubsetOf(cpuset.New(0, 1, 2, 3, 8, 9, 10, 11)) || got.IsSubsetOf(cpuset.New(4, 5, 6, 7, 12, 13, 14, 15))
			n.want(inOne, "the pod gets CPUs %s of two caches; one has 5,7,12-15 free", got)
		},
	},
	{
		name: "spreading-shrinks-affinity",
		what: "distribute-cpus-across-numa uses fewer NUMA nodes than the pod's affinity has (139430)",
		ours: "spreads over all of them",
		play: func(n *node) {
			n.begin(func(s *settings) {
				plain(grid(4, 1, 16, 1, 16), "0", "best-effort", "distribute-cpus-across-numa")(s)
				s.devices = []int{0, 1, 2, 3}
			})
			pod := n.admit("p; app a cpu=44 memory=64Mi " + nic + "=4")
			per := n.perNode(n.exclusive(pod, "a"))
			n.want(len(per) == 4, "CPUs by NUMA node: %v", per)
		},
	},
	{
		name: "reserved-cpus-counted-for-narrowest-affinity",
		what: "reserved CPUs count when the narrowest affinity is looked for; a pod that needs more NUMA nodes can never run under restricted (132187)",
		ours: "counts what pods can get",
		play: func(n *node) {
			n.begin(plain(grid(4, 1, 4, 1, 16), "0,4,8,12", "restricted"))
			n.has("p", 12)
		},
	},
	{
		name: "spreading-whole-cores-never-returns",
		what: "distribute-cpus-across-numa with full-pcpus-only never returns on some requests; the kubelet is wedged (140730)",
		ours: "always returns", hangs: true,
		play: func(n *node) {
			n.begin(plain(grid(2, 2, 3, 2, 16), "0,3", "none", "distribute-cpus-across-numa", "full-pcpus-only"))
			n.holds("x", cpuset.New(6, 18))
			n.holds("y", cpuset.New(9, 10, 21, 22))
			n.try(cpus("p", 14))
		},
	},
	{
		name: "spreading-over-cores-goes-by-numbers",
		what: "distribute-cpus-across-cores packs where siblings have adjacent numbers (140688)",
		ours: "goes by cores",
		play: func(n *node) {
			n.begin(plain(parsed(`
name: adjacent
description: adjacent siblings
sources: [none]
nodes:
- {id: 0, memory: 16Gi}
cpus:
- {cpus: "0-15", threads: 2, socket: 0, node: 0}
`), "0", "none", "distribute-cpus-across-cores"))
			got := n.has("p", 4)
			n.want(n.splits(got).Equals(got), "the pod gets CPUs %s, which are siblings", got)
		},
	},
	{
		name: "align-by-socket-forgets-affinity",
		what: "align-by-socket widens the affinity to the socket and forgets the NUMA node (136572, 122295)",
		ours: "takes the node's CPUs first",
		play: func(n *node) {
			n.begin(func(s *settings) {
				plain(grid(2, 2, 8, 1, 16), "31", "best-effort", "align-by-socket")(s)
				s.devices = []int{1}
			})
			pod := n.admit("p; app a cpu=4 memory=64Mi " + nic + "=1")
			got := n.exclusive(pod, "a")
			n.want(got.IsSubsetOf(cpuset.New(8, 9, 10, 11, 12, 13, 14, 15)), "the pod gets CPUs %s; its device is on NUMA node 1, with CPUs 8-15", got)
		},
	},
	{
		name: "strict-reservation-empties-pool",
		what: "with strict-cpu-reservation a pod gets the last CPU of the node shared pool; the next start of the kubelet fails (141196)",
		ours: "refuses the pod",
		play: func(n *node) {
			n.begin(plain(grid(1, 1, 4, 1, 16), "0", "none", "strict-cpu-reservation"))
			n.try(cpus("p", 3))
			n.restart(nil)
			n.want(!n.sharedPool().IsEmpty(), "the node shared pool is empty")
		},
	},
	{
		name: "strict-reservation-empties-pool-by-budget",
		what: "the same with a pod's budget (141196)",
		ours: "refuses the pod",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(4)(s); s.cpuOptions = []string{"strict-cpu-reservation"} })
			n.try("p cpu=3 memory=1Gi; app a")
			n.want(!n.sharedPool().IsEmpty(), "the node shared pool is empty")
		},
	},
	{
		name: "whole-cores-ignore-reuse",
		what: "full-pcpus-only refuses a container that would use its pod's init container's CPUs again",
		ours: "counts them",
		play: func(n *node) {
			n.begin(plain(grid(1, 1, 4, 2, 16), "0,4", "none", "full-pcpus-only"))
			n.admit("p; init i cpu=4 memory=64Mi; app a cpu=4 memory=64Mi")
		},
	},
	{
		name: "whole-cores-are-half",
		what: "full-pcpus-only gives out half cores where pods from before the option was turned on have split some",
		ours: "only cores that are free with all threads",
		play: func(n *node) {
			n.begin(plain(grid(1, 1, 4, 2, 16), "0,4", "none"))
			n.holds("x", cpuset.New(1))
			n.holds("y", cpuset.New(2))
			n.restart(func(s *settings) { s.cpuOptions = []string{"full-pcpus-only"} })
			pod, result := n.try(cpus("p", 4))
			if result.Admit {
				got := n.exclusive(pod, "a")
				n.want(n.splits(got).IsEmpty(), "the pod gets CPUs %s; of the cores of %s it has one thread", got, n.splits(got))
			}
		},
	},
	{
		name: "slices-split-cores",
		what: "full-pcpus-only holds for a pod's budget and not within it: two containers get the threads of one core",
		ours: "slices and pools are whole cores, or the pod is refused",
		play: func(n *node) {
			n.begin(func(s *settings) {
				s.machine, s.reserved, s.cpuOptions = grid(1, 1, 4, 2, 16), "0,4", []string{"full-pcpus-only"}
			})
			pod, result := n.try("p cpu=4 memory=2Gi; app a cpu=1 memory=1Gi; app b")
			if result.Admit {
				got := n.exclusive(pod, "a")
				n.want(n.splits(got).IsEmpty(), "the slice is CPUs %s, and the pool beside it %s", got, n.affinity(pod, "b"))
			}
		},
	},
	{
		name: "slices-are-not-aligned",
		what: "the slices of a pod on several NUMA nodes are taken without a look at nodes: one lies on two nodes that fits on one",
		ours: "each slice on as few nodes as it can",
		play: func(n *node) {
			n.begin(func(s *settings) { s.machine, s.reserved, s.policy = grid(2, 1, 6, 1, 16), "0,6", "best-effort" })
			pod := n.admit("p cpu=9 memory=4Gi; app a cpu=2 memory=1Gi; app b cpu=4 memory=1Gi; app c")
			for _, name := range []string{"a", "b"} {
				per := n.perNode(n.exclusive(pod, name))
				n.want(len(per) == 1, "slice %s of %d CPUs, by NUMA node: %v", name, n.exclusive(pod, name).Size(), per)
			}
		},
	},
	{
		name: "init-slice-over-running-sidecar",
		what: "the slice of an init container is laid on the CPUs on which a sidecar runs that shares",
		ours: "beside them, if there are others",
		play: func(n *node) {
			n.begin(func(s *settings) { s.machine, s.reserved = grid(1, 1, 4, 2, 16), "0,3" })
			pod := n.admit("p cpu=6 memory=4Gi; sidecar log; init i cpu=2 memory=1Gi; app a cpu=1 memory=1Gi; app b cpu=1 memory=1Gi")
			both := n.exclusive(pod, "i").Intersection(n.affinity(pod, "log"))
			n.want(both.IsEmpty(), "the init container has CPUs %s of its own, and the sidecar runs on %s", n.exclusive(pod, "i"), n.affinity(pod, "log"))
		},
	},
	{
		name: "sparse-node-numbers-panic",
		what: "prefer-closest-numa-nodes panics where NUMA nodes are not numbered from 0 without gaps",
		ours: "reads distances by position",
		play: func(n *node) {
			n.begin(func(s *settings) {
				plain(grid(3, 1, 4, 1, 16), "0", "best-effort")(s)
				for i := range s.machine.Nodes {
					s.machine.Nodes[i].ID = 8 * i
				}
				for i := range s.machine.CPUs {
					s.machine.CPUs[i].Node *= 8
				}
				s.topologyOptions = map[string]string{"prefer-closest-numa-nodes": "true"}
			})
			n.has("p", 6)
		},
	},
}

// holds has a pod with one container that runs on these CPUs, of its own.
func (n *node) holds(name string, own cpuset.CPUSet) {
	pod := parsePod(cpus(name, own.Size()))
	pool := n.sharedPool().Difference(own)
	n.add(pod)
	n.start(name)
	n.cpuWrites(func(s cpustate.State) {
		s.SetCPUSet(string(pod.UID), "a", own)
		s.SetDefaultCPUSet(pool)
	})
	n.mayMove(nil, name)
	n.want(n.exclusive(pod, "a").Equals(own), "pod %s has CPUs %s, and not %s", name, n.exclusive(pod, "a"), own)
}

// SPDX-License-Identifier: Apache-2.0

package faults

import "fmt"

// plainMemory is a node with the gate off and so much memory on each NUMA node,
// of which 1Gi is reserved.
func plainMemory(policy string, nodes int, gi uint64) func(*settings) {
	return func(s *settings) {
		onMemory(nodes, gi)(s)
		s.gateOff, s.policy, s.scope = true, policy, "container"
	}
}

func memory(pod, amount string) string { return fmt.Sprintf("%s; app a cpu=1 memory=%s", pod, amount) }

var memoryFaults = []fault{
	{
		name: "small-pod-makes-large-one-fail",
		what: "a large pod that could only lie beside a small one's memory is first offered NUMA nodes as preferred and then refused as unexpected (128708, 120733)",
		ours: "refuses it with the reason: it could take what the small one was promised",
		play: func(n *node) {
			n.begin(plainMemory("restricted", 2, 80))
			n.admit(memory("small", "256Mi"))
			_, result := n.try(memory("large", "90Gi"))
			n.wantReason(result, "TopologyAffinityError", "could take what others were promised")
		},
	},
	{
		name: "wide-pod-keeps-others-out",
		what: "a pod on two NUMA nodes keeps pods on one of them out, although there is room for both (128669)",
		ours: "admits what can take nothing from others",
		play: func(n *node) {
			n.begin(func(s *settings) { plainMemory("best-effort", 2, 80)(s); s.cpuPolicy = "static" })
			wide := n.admit("wide; app a cpu=6 memory=20Gi")
			n.want(len(n.mems(wide, "a")) == 2, "the scenario needs a pod on two nodes")
			pod := n.admit(memory("p", "256Mi"))
			n.want(len(n.mems(pod, "a")) == 1, "256Mi lie on NUMA nodes %v", n.mems(pod, "a"))
		},
	},
	{
		name: "group-outlives-its-reason",
		what: "after the large pod is gone, a small one that shared its NUMA nodes keeps them tied together: the next small pod is on both",
		ours: "nodes are tied together only while it is needed",
		play: func(n *node) {
			n.begin(plainMemory("best-effort", 2, 80))
			large := n.admit(memory("large", "90Gi"))
			n.admit(memory("small", "256Mi"))
			n.end(large)
			n.probe()
			pod := n.admit(memory("p", "256Mi"))
			n.want(len(n.mems(pod, "a")) == 1, "256Mi lie on NUMA nodes %v", n.mems(pod, "a"))
		},
	},
	{
		name: "far-memory-is-taken-first",
		what: "memory of NUMA nodes without CPUs, as of CXL or HBM, is taken as readily as that beside CPUs (135541)",
		ours: "only when the others have no room",
		play: func(n *node) {
			n.begin(func(s *settings) {
				plainMemory("best-effort", 2, 16)(s)
				s.reserved = "0"
				for i := range s.machine.CPUs {
					s.machine.CPUs[i].Node, s.machine.CPUs[i].Core, s.machine.CPUs[i].Socket = 1, i, 0
				}
			})
			pod := n.admit(memory("p", "2Gi"))
			n.want(fmt.Sprint(n.mems(pod, "a")) == "[1]", "the memory is on %v; only node 1 has CPUs", n.mems(pod, "a"))
		},
	},
	{
		name: "page-size-of-some-nodes-panics",
		what: "a pod that asks for a page size which some NUMA node does not have panics the kubelet",
		ours: "leaves such nodes out",
		play: func(n *node) {
			n.begin(func(s *settings) {
				plainMemory("restricted", 2, 16)(s)
				s.machine = withHugePages(s.machine, 256)
				s.machine.Nodes[0].HugePages = nil
			})
			n.admit("p; app a cpu=1 memory=1Gi hugepages-2Mi=256Mi")
		},
	},
	{
		name: "reservation-larger-than-a-node",
		what: "more reserved than a NUMA node has is counted as nearly endless memory",
		ours: "the kubelet does not start, and says both amounts",
		play: func(n *node) {
			plainMemory("restricted", 1, 16)(&n.settings)
			n.memoryReserved = map[int]string{0: "17Gi"}
			if n.tryBoot() == nil {
				_, result := n.try(memory("p", "1Ti"))
				n.want(!result.Admit, "a pod of 1Ti is admitted to a node of 16Gi")
			}
		},
	},
	{
		name: "init-memory-is-given-away",
		what: "memory of an ended init container is given to others, and when it runs again, it is bound to none (123971)",
		ours: "stays on record until the pod ends",
		play: func(n *node) {
			n.begin(plainMemory("restricted", 1, 16))
			pod := n.admit("p; init i cpu=1 memory=10Gi; app a cpu=1 memory=1Gi")
			n.want(len(n.mems(pod, "i")) == 1, "the init container has memory of no NUMA node")
		},
	},
	{
		name: "slices-are-bound-to-all-nodes-of-the-pod",
		what: "each part of a pod on two NUMA nodes is bound to the memory of both, wherever its CPUs are",
		ours: "to that of its CPUs, as far as it is sure of it",
		play: func(n *node) {
			n.begin(func(s *settings) { s.machine, s.reserved = grid(2, 1, 6, 1, 16), "0,6" })
			pod := n.admit("p cpu=10 memory=20Gi; app a cpu=5 memory=8Gi; app b cpu=5 memory=8Gi")
			n.want(len(n.perNode(n.exclusive(pod, "a"))) == 1 && len(n.mems(pod, "a")) == 1, "slice a: CPUs by NUMA node %v, memory of %v", n.perNode(n.exclusive(pod, "a")), n.mems(pod, "a"))
		},
	},
	{
		name: "ended-pods-keep-memory",
		what: "memory of pods that ended is taken until the next admission",
		ours: "taken back within 10 s",
		play: func(n *node) {
			n.begin(plainMemory("restricted", 1, 16))
			n.end(n.admit(memory("p", "2Gi")))
			n.eventually(20, func() bool { return n.reservedMemory("memory") == 0 }, "after 20 s the memory is still taken")
		},
	},
}

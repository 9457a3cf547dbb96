// SPDX-License-Identifier: Apache-2.0

package faults

import "fmt"

// onCPUs is a node of one NUMA node with so many CPUs, and onMemory one where
// only memory is managed, so that the CPU manager's faults do not hide others.
func onCPUs(cpus int) func(*settings) {
	return func(s *settings) { s.machine = grid(1, 1, cpus, 1, 16) }
}

func onMemory(nodes int, gi uint64) func(*settings) {
	return func(s *settings) {
		s.machine = grid(nodes, 1, 4, 1, gi)
		s.cpuPolicy = "none"
		s.memoryReserved = map[int]string{}
		for id := range nodes {
			s.memoryReserved[id] = "1Gi"
		}
	}
}

const onRecord = "admits it as it is"

var restartFaults = []fault{
	{
		name: "restart-moves-pod",
		what: "a restart of the kubelet gives a running pod with a budget other CPUs (140989)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(onCPUs(6))
			n.admit("p cpu=2 memory=1Gi; app a cpu=2 memory=1Gi")
			n.restart(nil)
		},
	},
	{
		name: "restart-refuses-pod-for-cpus",
		what: "a restart refuses a running pod with a budget, since its CPUs are taken: by itself (140989)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(onCPUs(4))
			n.admit("p cpu=2 memory=1Gi; app a cpu=2 memory=1Gi")
			n.restart(nil)
		},
	},
	{
		name: "restart-leaks-cpus",
		what: "the CPUs from which a restart moved a pod belong to nobody, and the start after it fails for good (140989)",
		ours: "nothing moves; every start is like the first",
		play: func(n *node) {
			n.begin(onCPUs(6))
			n.admit("p cpu=2 memory=1Gi; app a cpu=2 memory=1Gi")
			n.mayMove(nil, "p")
			n.mayMove(nil, "p")
			n.wantPool("0,3-5")
		},
	},
	{
		name: "restart-refuses-pod-with-pool",
		what: "a restart refuses every running pod that has an exclusive and a shared container, under restricted and single-numa-node (140989)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.admit("p cpu=3 memory=2Gi; app a cpu=2 memory=1Gi; app b")
			n.restart(nil)
		},
	},
	{
		name: "restart-refuses-shared-only-pod",
		what: "the same with a pod all of whose containers share (140989)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(8)(s); s.policy = "single-numa-node" })
			n.admit("p cpu=3 memory=2Gi; app a; app b")
			n.restart(nil)
		},
	},
	{
		name: "restart-counts-memory-twice",
		what: "a restart takes a running pod's memory a second time (140906)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(onMemory(1, 16))
			n.admit("p cpu=2 memory=2Gi; app a cpu=2 memory=2Gi")
			n.restart(nil)
			n.wantReserved("2Gi")
		},
	},
	{
		name: "restart-refuses-pod-for-memory",
		what: "a restart refuses a running pod, since its memory is taken: by itself (140906)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(onMemory(1, 6))
			n.admit("p cpu=2 memory=3Gi; app a cpu=2 memory=3Gi")
			n.restart(nil)
		},
	},
	{
		name: "restart-moves-memory",
		what: "a restart takes a running pod's memory on another NUMA node, where it does not lie, under single-numa-node (140906, 141069)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(func(s *settings) { onMemory(2, 6)(s); s.policy = "single-numa-node" })
			n.admit("p cpu=2 memory=4Gi; app a cpu=1 memory=2Gi; app b cpu=1 memory=2Gi")
			n.restart(nil)
		},
	},
	{
		name: "restart-refuses-pod-for-its-own-node",
		what: "a restart refuses a running pod under restricted: it has forgotten the pod's NUMA node, and takes the pod for one on all of them (140906, 141069)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(onMemory(2, 6))
			n.admit("p cpu=2 memory=4Gi; app a cpu=1 memory=2Gi; app b cpu=1 memory=2Gi")
			n.restart(nil)
		},
	},
	{
		name: "restart-second-start-fails-for-memory",
		what: "after memory was counted twice, the next start of the kubelet fails for good (140906)",
		ours: "nothing is counted twice; every start is like the first",
		play: func(n *node) {
			n.begin(onMemory(1, 16))
			n.admit("p cpu=2 memory=2Gi; app a cpu=2 memory=2Gi")
			n.mayMove(nil, "p")
			n.mayMove(nil, "p")
		},
	},
	{
		name: "restart-forgets-memory-affinity",
		what: "after a restart the memory manager has no preference for a running pod, since it compares one container's memory with the whole pod's (141069)",
		ours: "prefers the nodes on record",
		play: func(n *node) {
			n.begin(onMemory(2, 16))
			pod := n.admit("p cpu=2 memory=2Gi; app a cpu=1 memory=1Gi; app b")
			n.boot()
			n.want(fmt.Sprint(n.memoryHints(pod)) == "[0]", "the preferred nodes are %v, and the pod is on 0", n.memoryHints(pod))
		},
	},
	{
		name: "restart-forgets-memory-affinity-without-budget",
		what: "the same in scope pod with pods that have several containers and no budget",
		ours: "prefers the nodes on record",
		play: func(n *node) {
			n.begin(func(s *settings) { onMemory(2, 16)(s); s.gateOff = true })
			pod := n.admit("p; app a cpu=1 memory=1Gi; app b cpu=1 memory=1Gi")
			n.boot()
			n.want(fmt.Sprint(n.memoryHints(pod)) == "[0]", "the preferred nodes are %v, and the pod is on 0", n.memoryHints(pod))
		},
	},
	{
		name: "restart-moves-memory-to-first-node",
		what: "a pod on another node than the first is moved to the first by a restart (141995)",
		ours: onRecord,
		play: func(n *node) {
			n.begin(func(s *settings) { onMemory(2, 8)(s); s.policy = "single-numa-node" })
			first := n.admit("first cpu=1 memory=6Gi; app a cpu=1 memory=6Gi")
			n.admit("p cpu=2 memory=4Gi; app a cpu=1 memory=2Gi; app b cpu=1 memory=2Gi")
			n.end(first)
			n.probe()
			n.restart(nil)
		},
	},
	{
		name: "restart-moves-cpus-by-scope",
		what: "a restart with scope container, and one back to scope pod, give a running pod a second set of CPUs (140989)",
		ours: "keeps what is on record, whatever the scope",
		play: func(n *node) {
			n.begin(onCPUs(12))
			n.admit("p cpu=3 memory=2Gi; app a cpu=2 memory=1Gi; app b")
			n.restart(func(s *settings) { s.scope = "container" })
			n.restart(func(s *settings) { s.scope, s.policy = "pod", "best-effort" })
		},
	},
	{
		name: "restart-allocates-init-memory-again",
		what: "a restart takes memory anew for init containers that have ended, and kills pods for which there is none (123971)",
		ours: "their memory is on record until the pod ends",
		play: func(n *node) {
			n.begin(func(s *settings) {
				onMemory(2, 16)(s)
				s.gateOff, s.policy, s.scope = true, "single-numa-node", "container"
			})
			n.admit("p; init i cpu=1 memory=10Gi; app a cpu=1 memory=10Gi")
			n.admit("q; init i cpu=1 memory=10Gi; app a cpu=1 memory=10Gi")
			n.restart(nil)
		},
	},
	{
		name: "restart-updates-every-container",
		what: "a restart sends every running container its cpuset again, one after the other",
		ours: "asks the runtime, and sends what differs",
		play: func(n *node) {
			n.begin(static(8, false))
			n.admit("p; app a cpu=2 memory=64Mi")
			n.admit("q; app a; app b")
			n.settles()
			before := n.runtime.updated()
			n.restart(nil)
			n.settles()
			n.want(n.runtime.updated() == before, "containers are sent the cpusets that they have")
		},
	},
}

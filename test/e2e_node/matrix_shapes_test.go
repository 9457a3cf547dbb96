// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

// Machines that are not the usual one. Of the first NUMA node, a core and 512Mi are
// reserved; of all, the guest's kernel has some memory.
const (
	// Two NUMA nodes of two cores, with a cache each, on each of two sockets.
	machineFour = "2 sockets, 4 nodes, 2 cores, 2 threads, 3Gi each, 2 caches"
	// Four small NUMA nodes without siblings, on one socket.
	machineSmall = "1 socket, 4 nodes, 3 cores, 1 thread, 1536Mi each"
	// Of three NUMA nodes one has more memory, and one no CPUs.
	machineOdd = "1 socket, 3 nodes, 4 cores, 2 threads, 3Gi each, node 1: 6Gi, node 2: 0 cores"
)

// shapeCases are pods on several NUMA nodes, or kept to one, on machines of other
// shapes than the usual one.
var shapeCases = []matrixCase{
	{
		name: "four nodes, several at once", machine: machineFour, policy: "restricted", scope: "pod", inOrder: true,
		rows: []matrixRow{
			{`two cpu=8 memory=4Gi
			  sidecar proxy cpu=4 memory=64Mi
			  app a cpu=4 memory=512Mi`, `
			  pod: 8 CPUs, cpu.max max, memory.max 4Gi
			  proxy: 4 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  a: 4 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 512Mi`},
			{`one cpu=3 memory=256Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
			// CPUs would need one node, and memory two.
			{`much cpu=1 memory=4Gi
			  app a`, `
			  refused: TopologyAffinityError`},
			{`shared cpu=2 memory=128Mi
			  app a
			  app b cpu=500m memory=32Mi`, `
			  pod: 2 CPUs, cpu.max 2, memory.max 128Mi
			  a: pod shared pool of 2 CPUs on 1 node, its memory there, cpu.max 2, memory.max 128Mi
			  b: pod shared pool of 2 CPUs on 1 node, its memory there, cpu.max 0.5, memory.max 32Mi`},
		},
	},
	{
		name: "four nodes, one for each", machine: machineFour, policy: "single-numa-node", scope: "pod", inOrder: true,
		rows: []matrixRow{
			{`inits cpu=3 memory=256Mi
			  init first
			  sidecar logs
			  sidecar proxy cpu=1 memory=64Mi
			  init second cpu=1 memory=64Mi
			  app main cpu=1 memory=64Mi`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  first: ran on 3 CPUs of the pod
			  logs: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi
			  proxy: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  second: ran on 1 CPU of the pod, apart from logs, proxy
			  main: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
			{`plain
			  app a cpu=2 memory=64Mi
			  app b cpu=1 memory=64Mi
			  app c cpu=500m memory=64Mi`, `
			  pod: cpu.max max, memory.max 192Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  c: node shared pool, its memory on 1 node, cpu.max 0.5, memory.max 64Mi`},
			{`wide cpu=5 memory=128Mi
			  app a cpu=4 memory=64Mi
			  app b`, `
			  refused: TopologyAffinityError`},
			{`whole cpu=4 memory=2Gi
			  app a cpu=3 memory=1Gi
			  app b`, `
			  pod: 4 CPUs, cpu.max max, memory.max 2Gi
			  a: 3 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 1Gi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 2Gi`},
		},
	},
	{
		name: "four nodes, container scope", machine: machineFour, policy: "single-numa-node", scope: "container", inOrder: true,
		rows: []matrixRow{
			{`mixed cpu=4 memory=256Mi
			  sidecar proxy cpu=1 memory=64Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: cpu.max max, memory.max 256Mi
			  proxy: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: node shared pool, memory anywhere, cpu.max 1, memory.max 256Mi`},
			{`wide cpu=7 memory=256Mi
			  app a cpu=5 memory=64Mi
			  app b`, `
			  refused: TopologyAffinityError`},
			{`slices cpu=3 memory=128Mi
			  app a cpu=2 memory=64Mi
			  app b cpu=1 memory=64Mi`, `
			  pod: cpu.max max, memory.max 128Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
		},
	},
	{
		name: "small nodes, several at once", machine: machineSmall, policy: "best-effort", scope: "pod", inOrder: true,
		rows: []matrixRow{
			{`wide cpu=5 memory=1800Mi
			  app a cpu=3 memory=256Mi
			  app b cpu=2 memory=256Mi`, `
			  pod: 5 CPUs, cpu.max max, memory.max 1800Mi
			  a: 3 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 256Mi
			  b: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 256Mi`},
			{`node cpu=3 memory=512Mi
			  sidecar proxy cpu=1 memory=64Mi
			  app a`, `
			  pod: 3 CPUs, cpu.max max, memory.max 512Mi
			  proxy: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  a: pod shared pool of 2 CPUs on 1 node, its memory there, cpu.max 2, memory.max 512Mi`},
			{`last cpu=2 memory=128Mi
			  app a cpu=2 memory=64Mi`, `
			  pod: 2 CPUs, cpu.max max, memory.max 128Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
		},
	},
	{
		name: "small nodes, one for each", machine: machineSmall, policy: "single-numa-node", scope: "pod", inOrder: true,
		rows: []matrixRow{
			{`node cpu=3 memory=256Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
			{`more cpu=4 memory=256Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  refused: TopologyAffinityError`},
			{`plain
			  app a cpu=3 memory=64Mi`, `
			  pod: cpu.max max, memory.max 64Mi
			  a: 3 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
			{`shared cpu=2 memory=128Mi
			  app a`, `
			  pod: 2 CPUs, cpu.max 2, memory.max 128Mi
			  a: pod shared pool of 2 CPUs on 1 node, its memory there, cpu.max 2, memory.max 128Mi`},
			{`full cpu=3 memory=512Mi
			  app a cpu=3 memory=512Mi`, `
			  pod: 3 CPUs, cpu.max max, memory.max 512Mi
			  a: 3 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 512Mi`},
		},
	},
	{
		name: "uneven nodes, one for each", machine: machineOdd, policy: "restricted", scope: "pod", inOrder: true,
		rows: []matrixRow{
			// Only the node with more memory has as much.
			{`much cpu=2 memory=4Gi
			  app a cpu=1 memory=1Gi
			  app b`, `
			  pod: 2 CPUs, cpu.max max, memory.max 4Gi
			  a: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 1Gi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 4Gi`},
			// It would need one node on an idle machine.
			{`beyond cpu=4 memory=3500Mi
			  app a cpu=2 memory=512Mi
			  app b cpu=2 memory=512Mi`, `
			  refused: TopologyAffinityError`},
			{`small cpu=2 memory=256Mi
			  sidecar proxy cpu=1 memory=64Mi
			  app a`, `
			  pod: 2 CPUs, cpu.max max, memory.max 256Mi
			  proxy: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  a: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
		},
	},
	{
		name: "a node without CPUs", machine: machineOdd, policy: "best-effort", scope: "pod", inOrder: true,
		rows: []matrixRow{
			// Memory of all nodes, CPUs of those that have any.
			{`far cpu=12 memory=9Gi
			  app a cpu=6 memory=1Gi
			  app b cpu=6 memory=1Gi`, `
			  pod: 12 CPUs, cpu.max max, memory.max 9Gi
			  a: 6 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 1Gi
			  b: 6 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 1Gi`},
		},
	},
	{
		name: "a node without CPUs, container scope", machine: machineOdd, policy: "best-effort", scope: "container", inOrder: true,
		rows: []matrixRow{
			{`plain
			  app a cpu=2 memory=4Gi
			  app b cpu=1 memory=128Mi`, `
			  pod: cpu.max max, memory.max 4224Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 4Gi
			  b: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 128Mi`},
			{`mixed cpu=4 memory=1Gi
			  app a cpu=2 memory=512Mi
			  app b`, `
			  pod: cpu.max max, memory.max 1Gi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 512Mi
			  b: node shared pool, memory anywhere, cpu.max 2, memory.max 1Gi`},
		},
	},
}

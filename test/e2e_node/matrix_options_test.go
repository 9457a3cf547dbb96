// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

// optionCases are options of the policies, inside pods.
var optionCases = []matrixCase{
	{
		name: "full-pcpus-only, pod scope", policy: "restricted", scope: "pod", inOrder: true, counts: []string{"core"},
		cpuOptions: map[string]string{"full-pcpus-only": "true"},
		rows: []matrixRow{
			{`whole cpu=6 memory=256Mi
			  sidecar proxy cpu=2 memory=64Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: 6 CPUs of 3 cores, cpu.max max, memory.max 256Mi
			  proxy: 2 exclusive CPUs of 1 core on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  a: 2 exclusive CPUs of 1 core on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 2 CPUs of 1 core on 1 node, its memory there, cpu.max 2, memory.max 256Mi`},
			{`odd cpu=4 memory=128Mi
			  app a cpu=1 memory=64Mi
			  app b`, `
			  refused: SMTAlignmentError`},
			{`uneven cpu=3 memory=128Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  refused: SMTAlignmentError`},
			{`plain
			  app a cpu=4 memory=64Mi`, `
			  pod: cpu.max max, memory.max 64Mi
			  a: 4 exclusive CPUs of 2 cores on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
		},
	},
	{
		name: "full-pcpus-only, container scope", policy: "single-numa-node", scope: "container", inOrder: true, counts: []string{"core"},
		cpuOptions: map[string]string{"full-pcpus-only": "true"},
		rows: []matrixRow{
			// What shares need not be whole cores.
			{`whole cpu=5 memory=256Mi
			  sidecar proxy cpu=2 memory=64Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: cpu.max max, memory.max 256Mi
			  proxy: 2 exclusive CPUs of 1 core on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  a: 2 exclusive CPUs of 1 core on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: node shared pool, memory anywhere, cpu.max 1, memory.max 256Mi`},
			{`odd cpu=4 memory=128Mi
			  app a cpu=1 memory=64Mi
			  app b`, `
			  refused: SMTAlignmentError`},
		},
	},
	{
		name: "distribute-cpus-across-numa", policy: "best-effort", scope: "pod", inOrder: true,
		cpuOptions: map[string]string{"distribute-cpus-across-numa": "true"},
		rows: []matrixRow{
			// Half of the pod is on each node, and so is half of a slice that needs both.
			{`wide cpu=14 memory=256Mi
			  app a cpu=8 memory=64Mi
			  app b cpu=2 memory=64Mi
			  app c`, `
			  pod: 14 CPUs, cpu.max max, memory.max 256Mi
			  a: 8 exclusive CPUs on 2 nodes, its memory there, cpu.max max, memory.max 64Mi
			  b: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  c: pod shared pool of 4 CPUs on 2 nodes, its memory there, cpu.max 4, memory.max 256Mi`},
		},
	},
	{
		name: "strict-cpu-reservation", policy: "restricted", scope: "pod", inOrder: true,
		cpuOptions: map[string]string{"strict-cpu-reservation": "true"},
		rows: []matrixRow{
			{`mixed cpu=3 memory=256Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
			{`besteffort
			  app a`, `
			  pod: cpu.max max, memory.max max
			  a: node shared pool, memory anywhere, cpu.max max, memory.max max`},
		},
	},
	{
		name: "prefer-align-cpus-by-uncorecache", machine: machineFour, policy: "best-effort", scope: "pod", inOrder: true, counts: []string{"cache"},
		cpuOptions: map[string]string{"prefer-align-cpus-by-uncorecache": "true"},
		rows: []matrixRow{
			{`one cpu=3 memory=256Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: 3 CPUs of 1 cache, cpu.max max, memory.max 256Mi
			  a: 2 exclusive CPUs of 1 cache on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 1 CPU of 1 cache on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
			{`two cpu=6 memory=4Gi
			  app a cpu=4 memory=512Mi
			  app b cpu=2 memory=512Mi`, `
			  pod: 6 CPUs of 2 caches, cpu.max max, memory.max 4Gi
			  a: 4 exclusive CPUs of 1 cache on 1 node, its memory there, cpu.max max, memory.max 512Mi
			  b: 2 exclusive CPUs of 1 cache on 1 node, its memory there, cpu.max max, memory.max 512Mi`},
		},
	},
	{
		name: "prefer-closest-numa-nodes", machine: machineFour, policy: "restricted", scope: "pod", inOrder: true, counts: []string{"socket"},
		topologyOptions: map[string]string{"prefer-closest-numa-nodes": "true"},
		rows: []matrixRow{
			// The first pod leaves node 1 the lowest that has all its CPUs: nodes 1 and 2
			// are on two sockets, 2 and 3 on one.
			{`first cpu=1 memory=64Mi
			  app a cpu=1 memory=64Mi`, `
			  pod: 1 CPU of 1 socket, cpu.max max, memory.max 64Mi
			  a: 1 exclusive CPU of 1 socket on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
			{`near cpu=8 memory=4Gi
			  app a cpu=4 memory=512Mi
			  app b cpu=4 memory=512Mi`, `
			  pod: 8 CPUs of 1 socket, cpu.max max, memory.max 4Gi
			  a: 4 exclusive CPUs of 1 socket on 1 node, its memory there, cpu.max max, memory.max 512Mi
			  b: 4 exclusive CPUs of 1 socket on 1 node, its memory there, cpu.max max, memory.max 512Mi`},
		},
	},
}

// deviceCases are devices at admission. A pod goes where they are.
var deviceCases = []matrixCase{
	{
		name: "devices, pod scope", policy: "single-numa-node", scope: "pod", inOrder: true, devices: []int{0, 1, 1, 1},
		rows: []matrixRow{
			{`pair cpu=3 memory=256Mi
			  app a cpu=2 memory=64Mi podslice.dev/card=2
			  app b`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, 2 devices there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
			// One is left on each node, and the pod cannot be on both.
			{`apart cpu=2 memory=128Mi
			  app a cpu=1 memory=64Mi podslice.dev/card=1
			  app b podslice.dev/card=1`, `
			  refused: TopologyAffinityError`},
			// What an init container had, the containers after it have.
			{`inits cpu=2 memory=128Mi
			  init first podslice.dev/card=1
			  app a cpu=1 memory=64Mi
			  app b podslice.dev/card=1`, `
			  pod: 2 CPUs, cpu.max max, memory.max 128Mi
			  first: ran on 2 CPUs of the pod
			  a: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, 1 device there, cpu.max 1, memory.max 128Mi`},
			{`plain
			  app a cpu=2 memory=64Mi podslice.dev/card=1`, `
			  pod: cpu.max max, memory.max 64Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, 1 device there, cpu.max max, memory.max 64Mi`},
		},
	},
	{
		name: "devices, container scope", policy: "single-numa-node", scope: "container", inOrder: true, devices: []int{0, 1},
		rows: []matrixRow{
			// Each slice is where its device is.
			{`both cpu=3 memory=256Mi
			  sidecar proxy cpu=1 memory=64Mi podslice.dev/card=1
			  app a cpu=1 memory=64Mi podslice.dev/card=1
			  app b`, `
			  pod: cpu.max max, memory.max 256Mi
			  proxy: 1 exclusive CPU on 1 node, its memory there, 1 device there, cpu.max max, memory.max 64Mi
			  a: 1 exclusive CPU on 1 node, its memory there, 1 device there, cpu.max max, memory.max 64Mi
			  b: node shared pool, memory anywhere, cpu.max 1, memory.max 256Mi`},
		},
	},
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import "slices"

// matrixRow is a pod and what must be read back of it. In want, a line for the
// pod's cgroup is followed by one for each container, as matrixCase.text writes them.
type matrixRow struct {
	pod, want string
}

// matrixCase is a machine, a kubelet, and the pods that it gets: at once, or each
// when the one before it is known.
type matrixCase struct {
	name            string
	machine         string // "": the usual one
	policy, scope   string
	cpuOptions      map[string]string
	topologyOptions map[string]string
	devices         []int // NUMA node of each device that a plugin offers
	// counts are what CPUs are counted in beside CPUs: "core", "cache", "socket".
	counts         []string
	smoke, inOrder bool
	rows           []matrixRow
}

// On the usual machine NUMA node 0 has 10 CPUs that can be given out and node 1 has 12. In whatever
// order the kubelet takes the pods of a case, they fit.
var matrixCases = slices.Concat(usualCases, shapeCases, optionCases, deviceCases)

// usualCases are those of the usual machine.
var usualCases = []matrixCase{
	{
		name: "pod scope", policy: "single-numa-node", scope: "pod",
		rows: []matrixRow{
			{`exclusive cpu=1 memory=64Mi
			  app a cpu=1 memory=64Mi`, `
			  pod: 1 CPU, cpu.max max, memory.max 64Mi
			  a: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
			{`shared cpu=1 memory=128Mi
			  app a
			  app b cpu=500m memory=32Mi`, `
			  pod: 1 CPU, cpu.max 1, memory.max 128Mi
			  a: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 128Mi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 0.5, memory.max 32Mi`},
			{`mixed cpu=3 memory=256Mi
			  app a cpu=1 memory=64Mi
			  app b cpu=1 memory=64Mi
			  app c`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  a: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  c: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
			{`sidecars cpu=3 memory=256Mi
			  sidecar slice cpu=1 memory=64Mi
			  sidecar sharer
			  app main cpu=1 memory=64Mi`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  slice: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  sharer: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi
			  main: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
			// The first init container has the whole budget; the second has the CPU
			// of main, since that of logs is in use already.
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
			{`fraction cpu=2500m memory=128Mi
			  app a cpu=1 memory=64Mi
			  app b`, `
			  pod: cpu.max 2.5, memory.max 128Mi
			  a: node shared pool, its memory on 1 node, cpu.max 1, memory.max 64Mi
			  b: node shared pool, its memory on 1 node, cpu.max 2.5, memory.max 128Mi`},
			// CPUs and memory are judged apart.
			{`half cpu=3 memory=256Mi
			  app a cpu=1500m memory=64Mi
			  app b cpu=1 memory=64Mi`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  a: pod shared pool of 2 CPUs on 1 node, its memory there, cpu.max 1.5, memory.max 64Mi
			  b: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
			{`loose cpu=2 memory=256Mi
			  app a cpu=1 memory=32Mi<64Mi
			  app b`, `
			  pod: 2 CPUs, cpu.max 2, memory.max 256Mi
			  a: pod shared pool of 2 CPUs on 1 node, its memory there, cpu.max 1, memory.max 64Mi
			  b: pod shared pool of 2 CPUs on 1 node, its memory there, cpu.max 2, memory.max 256Mi`},
			{`burstable cpu=1<2 memory=64Mi<128Mi
			  app a cpu=1 memory=64Mi`, `
			  pod: cpu.max 2, memory.max 128Mi
			  a: node shared pool, memory anywhere, cpu.max 1, memory.max 64Mi`},
			{`plain
			  app a cpu=1 memory=64Mi
			  app b cpu=500m memory=64Mi`, `
			  pod: cpu.max max, memory.max 128Mi
			  a: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: node shared pool, its memory on 1 node, cpu.max 0.5, memory.max 64Mi`},
			{`besteffort
			  app a`, `
			  pod: cpu.max max, memory.max max
			  a: node shared pool, memory anywhere, cpu.max max, memory.max max`},
			{`empty cpu=2 memory=128Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  refused: TopologyAffinityError`},
		},
	},
	{
		name: "pod scope, both nodes", policy: "restricted", scope: "pod",
		rows: []matrixRow{
			// In this order the second slice would lie on both. No node has as much
			// memory, so that all resources ask for both.
			{`wide cpu=22 memory=24Gi
			  app a cpu=8 memory=8Gi
			  app b cpu=9 memory=8Gi
			  app c`, `
			  pod: 22 CPUs, cpu.max max, memory.max 24Gi
			  a: 8 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 8Gi
			  b: 9 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 8Gi
			  c: pod shared pool of 5 CPUs on 2 nodes, its memory there, cpu.max 5, memory.max 24Gi`},
		},
	},
	{
		name: "container scope", policy: "restricted", scope: "container", smoke: true,
		rows: []matrixRow{
			{`mixed cpu=4 memory=256Mi
			  sidecar proxy cpu=1 memory=64Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: cpu.max max, memory.max 256Mi
			  proxy: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: node shared pool, memory anywhere, cpu.max 1, memory.max 256Mi`},
			{`shared cpu=2 memory=128Mi
			  app a
			  app b cpu=500m memory=32Mi`, `
			  pod: cpu.max 2, memory.max 128Mi
			  a: node shared pool, memory anywhere, cpu.max 2, memory.max 128Mi
			  b: node shared pool, its memory on 1 node, cpu.max 0.5, memory.max 32Mi`},
			{`slices cpu=2 memory=128Mi
			  app a cpu=1 memory=64Mi
			  app b cpu=1 memory=64Mi`, `
			  pod: cpu.max max, memory.max 128Mi
			  a: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi`},
			{`inits cpu=2 memory=128Mi
			  init first cpu=2 memory=64Mi
			  app main cpu=1 memory=64Mi
			  app b`, `
			  pod: cpu.max max, memory.max 128Mi
			  first: ran on 2 CPUs
			  main: 1 exclusive CPU on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: node shared pool, memory anywhere, cpu.max 1, memory.max 128Mi`},
		},
	},
	{
		name: "pod scope, policy none", policy: "none", scope: "pod",
		rows: []matrixRow{
			{`mixed cpu=3 memory=256Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: cpu.max max, memory.max 256Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: node shared pool, memory anywhere, cpu.max 1, memory.max 256Mi`},
		},
	},
	{
		name: "pod scope, best-effort", policy: "best-effort", scope: "pod",
		rows: []matrixRow{
			{`mixed cpu=3 memory=256Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  pod: 3 CPUs, cpu.max max, memory.max 256Mi
			  a: 2 exclusive CPUs on 1 node, its memory there, cpu.max max, memory.max 64Mi
			  b: pod shared pool of 1 CPU on 1 node, its memory there, cpu.max 1, memory.max 256Mi`},
			{`empty cpu=2 memory=128Mi
			  app a cpu=2 memory=64Mi
			  app b`, `
			  refused: EmptyPodSharedPoolError`},
		},
	},
}

// SPDX-License-Identifier: Apache-2.0

package faults

import "github.com/podslice/podslice/pkg/machine"

var numaFaults = []fault{
	{
		name: "merging-hints-takes-minutes",
		what: "on 8 NUMA nodes an admission with four resources goes through all combinations of hints: minutes (137700)",
		ours: "microseconds", hangs: true,
		play: func(n *node) {
			n.begin(func(s *settings) {
				plain(withHugePages(grid(8, 1, 8, 1, 16), 512), "0", "best-effort")(s)
				s.memoryPolicy = "Static"
				for i := range s.machine.Nodes {
					s.machine.Nodes[i].HugePages = append(s.machine.Nodes[i].HugePages, machine.HugePages{PageSize: 1 << 30, Pages: 4})
				}
			})
			n.admit("p; app a cpu=2 memory=1Gi hugepages-2Mi=64Mi hugepages-1Gi=1Gi")
		},
	},
	{
		name: "many-memory-nodes-never-return",
		what: "on a machine with 36 NUMA nodes, of which two have CPUs, no admission ends (135541)",
		ours: "milliseconds", hangs: true,
		play: func(n *node) {
			n.begin(func(s *settings) {
				plain(fromCatalog("nvidia-gb200"), "0", "best-effort")(s)
				s.memoryPolicy = "Static"
				s.topologyOptions = map[string]string{"max-allowable-numa-nodes": "64"}
			})
			n.admit("p; app a cpu=2 memory=1Gi")
		},
	},
	{
		name: "node-number-64-panics",
		what: "a NUMA node whose number is 64 or more panics the kubelet",
		ours: "the kubelet does not start, and names it",
		play: func(n *node) {
			plain(grid(2, 1, 4, 1, 16), "0", "restricted")(&n.settings)
			n.machine.Nodes[1].ID = 64
			for i, c := range n.machine.CPUs {
				n.machine.CPUs[i].Node = 64 * c.Node
			}
			if n.tryBoot() == nil {
				n.has("p", 2)
			}
		},
	},
	{
		name: "more-than-eight-nodes",
		what: "the kubelet does not start on a machine with more than 8 NUMA nodes, unless an option says so (124144)",
		ours: "starts",
		play: func(n *node) {
			n.begin(plain(grid(10, 1, 2, 1, 16), "0", "restricted"))
			n.has("p", 1)
		},
	},
}

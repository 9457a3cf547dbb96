// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

// planMachine is a machine and what is played on it.
type planMachine struct {
	shape string
	runs  []planRun
}

// planRun is a kubelet and the pods that it gets, one after the other. In the
// pods' amounts {node} is the number of CPUs of the last NUMA node that has any,
// {half} half of it, and {more} one more than it.
type planRun struct {
	name, policy, scope string
	cpuOptions          map[string]string
	topologyOptions     map[string]string
	hugepages           int64 // bytes on every NUMA node
	pods                []string
}

// Two NUMA nodes with a socket each; four on two sockets with two last-level caches
// each; four small ones without siblings on one socket; and three on one socket, of
// which one has more memory and one no CPUs.
var planMachines = []planMachine{
	{"2 nodes, 6 cores, 2 threads, 20Gi each", []planRun{
		{name: "budgets", policy: "single-numa-node", scope: "pod", pods: planBudgets},
		{name: "whole cores", policy: "restricted", scope: "container", cpuOptions: map[string]string{"full-pcpus-only": "true"}, pods: planWholeCores},
		{name: "over both nodes", policy: "best-effort", scope: "pod", cpuOptions: map[string]string{"distribute-cpus-across-numa": "true"}, pods: planWide},
		{name: "pages", policy: "single-numa-node", scope: "container", hugepages: 32 << 20, pods: planPages},
		{name: "no alignment", policy: "none", scope: "container", pods: planBudgets},
	}},
	{"2 sockets, 4 nodes, 2 cores, 2 threads, 3Gi each, 2 caches", []planRun{
		{name: "budgets", policy: "restricted", scope: "pod", pods: planBudgets},
		{name: "near nodes", policy: "best-effort", scope: "pod", topologyOptions: map[string]string{"prefer-closest-numa-nodes": "true"}, pods: planWide},
		{name: "one cache", policy: "restricted", scope: "container", cpuOptions: map[string]string{"prefer-align-cpus-by-uncorecache": "true"}, pods: planMixed},
		{name: "whole cores", policy: "single-numa-node", scope: "pod", cpuOptions: map[string]string{"full-pcpus-only": "true"}, pods: planWholeCores},
		{name: "pages", policy: "restricted", scope: "pod", hugepages: 32 << 20, pods: planPages},
	}},
	{"1 socket, 4 nodes, 3 cores, 1 thread, 1536Mi each", []planRun{
		{name: "budgets", policy: "single-numa-node", scope: "pod", pods: planBudgets},
		{name: "budgets by container", policy: "single-numa-node", scope: "container", pods: planBudgets},
		{name: "over several nodes", policy: "restricted", scope: "pod", pods: planWide},
		{name: "mixed", policy: "best-effort", scope: "container", pods: planMixed},
		{name: "reserved alone", policy: "restricted", scope: "pod", cpuOptions: map[string]string{"strict-cpu-reservation": "true"}, pods: planMixed},
	}},
	{"1 socket, 3 nodes, 4 cores, 2 threads, 3Gi each, node 1: 6Gi, node 2: 0 cores", []planRun{
		{name: "budgets", policy: "single-numa-node", scope: "pod", pods: planBudgets},
		{name: "memory of several nodes", policy: "restricted", scope: "pod", pods: planMemory},
		{name: "memory of several nodes by container", policy: "best-effort", scope: "container", pods: planMemory},
		{name: "mixed", policy: "restricted", scope: "container", pods: planMixed},
		{name: "pages", policy: "single-numa-node", scope: "pod", hugepages: 32 << 20, pods: planPages},
	}},
}

var planBudgets = []string{
	`slices cpu=3 memory=128Mi
	 app a cpu=1 memory=32Mi
	 app b cpu=1 memory=32Mi
	 app c`,
	`plain
	 app a cpu=1 memory=32Mi
	 app b cpu=500m memory=32Mi`,
	`big cpu={more} memory=128Mi
	 app a cpu={more} memory=64Mi
	 sidecar b`,
	`shared cpu=1500m memory=64Mi
	 sidecar logs
	 app a`,
	`inits cpu=2 memory=96Mi
	 init first cpu=2 memory=64Mi
	 init second
	 sidecar logs
	 app a cpu=1 memory=32Mi`,
}

var planMixed = []string{
	`first cpu=2 memory=96Mi
	 sidecar proxy cpu=1 memory=32Mi
	 app a`,
	`fraction cpu=1500m memory=96Mi
	 app a cpu=1 memory=32Mi
	 app b`,
	`half
	 app a cpu={half} memory=64Mi`,
	`burst cpu=1<2 memory=64Mi
	 app a cpu=500m memory=32Mi`,
	`rest cpu=2 memory=64Mi
	 app a cpu=1 memory=32Mi
	 app b cpu=1 memory=32Mi`,
}

var planWholeCores = []string{
	`whole cpu=4 memory=96Mi
	 app a cpu=2 memory=32Mi
	 app b`,
	`odd
	 app a cpu=1 memory=32Mi`,
	`pair
	 app a cpu=2 memory=32Mi
	 app b cpu=250m memory=32Mi`,
	`uneven cpu=3 memory=64Mi
	 app a cpu=2 memory=32Mi
	 app b`,
}

var planWide = []string{
	`small cpu=1 memory=32Mi
	 app a cpu=1 memory=32Mi`,
	`wide cpu={more} memory=256Mi
	 app a cpu={half} memory=64Mi
	 app b`,
	`plain
	 app a cpu=1 memory=32Mi`,
	`late cpu={node} memory=128Mi
	 app a cpu={node} memory=64Mi`,
}

var planMemory = []string{
	`much cpu=2 memory=4Gi
	 app a cpu=1 memory=1Gi
	 app b`,
	`more cpu=2 memory=3500Mi
	 app a cpu=2 memory=3Gi`,
	`plain
	 app a cpu=1 memory=512Mi`,
	`last cpu=1 memory=256Mi
	 app a`,
}

var planPages = []string{
	`pages cpu=2 memory=96Mi hugepages-2Mi=16Mi
	 app a cpu=1 memory=32Mi hugepages-2Mi=8Mi
	 app b`,
	`plain
	 app a cpu=1 memory=32Mi hugepages-2Mi=16Mi`,
	`lots cpu=1 memory=64Mi hugepages-2Mi=48Mi
	 app a`,
	`rest cpu=1 memory=64Mi hugepages-2Mi=8Mi
	 app a`,
}

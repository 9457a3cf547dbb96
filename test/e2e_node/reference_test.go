// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"bytes"
	"fmt"
	"testing"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
)

const gi = 1 << 30

// container is what a reference pod's container must have.
type container struct {
	name      string
	isolation string
	cpus      int    // size of its cpuset; 0: the node shared pool
	pinned    bool   // memory nodes are set, to the node that its CPUs are on
	cpuMax    string // of its cgroup
	memoryMax int64
}

// reference is a reference pod and what must be read back from the kernel
// (docs/examples says why).
type reference struct {
	pod        string
	scope      string
	cpuMax     string
	memoryMax  int64
	budget     int // CPUs of the pod's own allocation; 0 in container scope
	containers []container
}

var references = []reference{
	{
		pod: "tightly-coupled-database", scope: "pod",
		cpuMax: "max 100000", memoryMax: 16 * gi, budget: 8,
		containers: []container{
			{"metrics-exporter", report.IsolationPod, 2, true, "200000 100000", 16 * gi},
			{"backup-agent", report.IsolationPod, 2, true, "200000 100000", 16 * gi},
			{"database", report.IsolationContainer, 6, true, "max 100000", 12 * gi},
		},
	},
	{
		pod: "ml-workload", scope: "container",
		cpuMax: "max 100000", memoryMax: 8 * gi,
		containers: []container{
			{"service-mesh-sidecar", report.IsolationHost, 0, false, "100000 100000", 8 * gi},
			{"ml-training", report.IsolationContainer, 3, true, "max 100000", 6 * gi},
		},
	},
}

// TestReferencePods starts each reference pod, checks every value that is
// promised for it, and then kills and starts the kubelet twice, but in the smoke
// test: nothing may move, and no process may be another one.
func TestReferencePods(t *testing.T) {
	for _, ref := range references {
		t.Run(ref.pod, func(t *testing.T) {
			n := freshNode(t)
			m := example(t, ref.pod)
			config := node.Pinned(shape, "single-numa-node", ref.scope)
			must(t, n.AddPod(ctx, m))
			must(t, n.StartKubelet(ctx, config))
			before, err := n.WaitRunning(ctx, m)
			must(t, err)
			t.Run("values", func(t *testing.T) { checkReference(t, ref, config, before, m) })
			if testing.Short() {
				return // TestChangesOverLivePods restarts the kubelet
			}
			for _, restart := range []string{"first", "second"} {
				if !t.Run(restart+" restart after kill -9", func(t *testing.T) { checkRestart(t, n, m, before) }) {
					break
				}
			}
		})
	}
}

func checkReference(t *testing.T, ref reference, config node.Config, r *report.Report, m node.Manifest) {
	pod := r.Pod(m.NodeName)
	equal(t, "pod cpu.max", pod.CPUMax, ref.cpuMax)
	equal(t, "pod memory.max", pod.MemoryMax, fmt.Sprint(ref.memoryMax))

	reserved := parse(t, config.ReservedCPUs)
	exclusive := cpuset.New() // everything in the pod that is not the node's
	for _, want := range ref.containers {
		if want.cpus > 0 {
			exclusive = exclusive.Union(parse(t, named(t, pod, want.name).CPUs))
		}
	}
	numa, nodeCPUs := nodeOf(t, r.Machine, exclusive)
	equal(t, "CPUs outside NUMA node "+numa, exclusive.Difference(nodeCPUs).String(), "")
	equal(t, "reserved CPUs in the pod", exclusive.Intersection(reserved).String(), "")
	if ref.budget > 0 {
		equal(t, "number of the pod's CPUs", exclusive.Size(), ref.budget)
		equal(t, "podresources' CPUs of the pod", pod.CPUIDs, exclusive.String())
	} else {
		equal(t, "podresources' CPUs of the pod", pod.CPUIDs, "")
	}
	online := cpuset.New()
	for _, cpu := range r.Machine.CPUs {
		online = online.Union(cpuset.New(cpu.ID))
	}

	pool := cpuset.New()
	for _, want := range ref.containers {
		t.Run(want.name, func(t *testing.T) {
			c := named(t, pod, want.name)
			cpus := parse(t, c.CPUs)
			equal(t, "isolation level", c.Isolation, want.isolation)
			equal(t, "cpu.max", c.CPUMax, want.cpuMax)
			equal(t, "memory.max", c.MemoryMax, fmt.Sprint(want.memoryMax))
			equal(t, "cpuset.cpus.effective", c.CPUsEffective, cpus.String())
			equal(t, "Cpus_allowed_list of the process", c.CPUsAllowed, cpus.String())
			if want.cpus > 0 {
				equal(t, "number of CPUs in "+c.CPUs, cpus.Size(), want.cpus)
			} else {
				equal(t, "cpuset.cpus, the node shared pool", cpus.String(), online.Difference(exclusive).String())
			}
			if want.pinned {
				equal(t, "cpuset.mems", c.Mems, numa)
				equal(t, "cpuset.mems.effective", c.MemsEffective, numa)
				equal(t, "Mems_allowed_list of the process", c.MemsAllowed, numa)
			} else {
				equal(t, "cpuset.mems", c.Mems, "")
			}
			switch want.isolation {
			case report.IsolationContainer:
				equal(t, "podresources' CPUs", c.CPUIDs, cpus.String())
			case report.IsolationPod:
				if pool.IsEmpty() {
					pool = cpus
				}
				equal(t, "cpuset.cpus, the pod shared pool", cpus.String(), pool.String())
			}
			for _, other := range ref.containers {
				if other.isolation == report.IsolationContainer && other.name != want.name {
					both := cpus.Intersection(parse(t, named(t, pod, other.name).CPUs))
					equal(t, "CPUs shared with "+other.name, both.String(), "")
				}
			}
		})
	}
}

// checkRestart kills the kubelet, starts it again, and compares the node with
// what it was before.
func checkRestart(t *testing.T, n *node.Node, m node.Manifest, before *report.Report) {
	was, err := n.KubeletPID(ctx)
	must(t, err)
	must(t, n.KillKubelet(ctx))
	must(t, n.RestartKubelet(ctx, was))
	// Pod status is not kept over a restart, so a kubelet that says Running has
	// admitted the pod and looked at its containers.
	_, err = n.WaitRunning(ctx, m)
	must(t, err)
	admissions, err := n.Metric(ctx, "kubelet_topology_manager_admission_requests_total")
	must(t, err)
	if admissions < 1 {
		t.Errorf("the new kubelet has asked the topology manager for %v admissions: it did not admit the pod again", admissions)
	}
	must(t, n.WaitReconciled(ctx, 2))
	after, err := n.WaitRunning(ctx, m)
	must(t, err)

	old, now := before.Pod(m.NodeName), after.Pod(m.NodeName)
	equal(t, "pod UID", now.UID, old.UID)
	equal(t, "pod cpu.max", now.CPUMax, old.CPUMax)
	equal(t, "pod memory.max", now.MemoryMax, old.MemoryMax)
	equal(t, "podresources' CPUs of the pod", now.CPUIDs, old.CPUIDs)
	for _, c := range old.Containers {
		// The whole structure: cpusets, quotas, isolation level, container id,
		// process and its start time, restart count.
		equal(t, "container "+c.Name, *named(t, now, c.Name), c)
	}
	for name, state := range before.States {
		if !bytes.Equal(after.States[name], state) {
			t.Errorf("%s changed from\n%s\nto\n%s", name, state, after.States[name])
		}
	}
	if len(before.States) != 2 {
		t.Errorf("checkpoints %v, want both managers'", before.States)
	}
}

// nodeOf returns the NUMA node that the first of some CPUs is on, and its CPUs.
func nodeOf(t *testing.T, m report.Machine, cpus cpuset.CPUSet) (string, cpuset.CPUSet) {
	t.Helper()
	if cpus.IsEmpty() {
		t.Fatal("the pod has no CPUs of its own")
	}
	for _, node := range m.Nodes {
		if all := parse(t, node.CPUs); all.Contains(cpus.List()[0]) {
			return fmt.Sprint(node.ID), all
		}
	}
	t.Fatalf("CPUs %s are on no NUMA node", cpus)
	return "", cpuset.New()
}

func named(t *testing.T, p *report.Pod, name string) *report.Container {
	t.Helper()
	c := p.Container(name)
	if c == nil {
		t.Fatalf("pod %s has no container %s", p.Name, name)
	}
	return c
}

func parse(t *testing.T, cpus string) cpuset.CPUSet {
	t.Helper()
	set, err := cpuset.Parse(cpus)
	if err != nil {
		t.Fatalf("CPU list %q: %v", cpus, err)
	}
	return set
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

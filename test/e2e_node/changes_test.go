// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"testing"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
)

// livePods run while the kubelet's configuration changes.
var livePods = []string{
	`mixed cpu=4 memory=256Mi
	 init first
	 sidecar logs
	 sidecar proxy cpu=1 memory=64Mi
	 app main cpu=2 memory=64Mi
	 app helper`,
	`shared cpu=2 memory=128Mi
	 app a
	 app b`,
	`plain
	 app a cpu=2 memory=64Mi
	 app b cpu=500m memory=64Mi`,
}

// TestChangesOverLivePods restarts the kubelet over running pods with one
// configuration after the other. The kernel must have the same of every container
// after each: cpuset, memory nodes, quota, process. In the end the pods go, and a
// pod that needs all CPUs shows that everything is back.
func TestChangesOverLivePods(t *testing.T) {
	n := freshNode(t)
	_, err := n.Guest.Output(ctx, "rm -rf "+matrixFolder+" && mkdir -p "+matrixFolder)
	must(t, err)
	first := node.Pinned(shape, "single-numa-node", "pod")
	must(t, n.StartKubelet(ctx, first))
	var pods []node.Manifest
	for _, text := range livePods {
		pods = append(pods, matrixPod(t, text))
	}
	must(t, n.AddPods(ctx, pods...))
	before := waitAll(t, n, pods)

	gateOff, containers, restricted, none, options := first, first, first, first, first
	gateOff.Gates = map[string]bool{node.GatePodLevelResources: true, node.GatePodLevelResourceManagers: false}
	containers.Scope = "container"
	restricted.TopologyPolicy = "restricted"
	none.TopologyPolicy = "none"
	options.CPUOptions = map[string]string{"full-pcpus-only": "true"}
	for _, change := range []struct {
		name   string
		config node.Config
		smoke  bool
	}{
		{"gate off", gateOff, true}, {"gate on", first, true}, {"scope container", containers, false},
		{"scope pod, restricted", restricted, false}, {"topology policy none", none, false},
		{"full-pcpus-only", options, false}, {"as at first", first, false},
	} {
		if leftOut(change.smoke) {
			continue
		}
		if !t.Run(change.name, func(t *testing.T) { restartOver(t, n, change.config, pods, before) }) {
			return
		}
	}

	t.Run("everything is back", func(t *testing.T) {
		for _, m := range pods {
			must(t, n.RemovePod(ctx, m))
		}
		must(t, n.KillKubelet(ctx))
		must(t, n.StartKubelet(ctx, restricted))
		all := matrixPod(t, "all cpu=22 memory=24Gi\napp a cpu=22 memory=24Gi")
		must(t, n.AddPod(ctx, all))
		r, err := n.WaitRunning(ctx, all)
		must(t, err)
		equal(t, "CPUs", parse(t, r.Pod(all.NodeName).CPUIDs).Size(), 22)
	})
}

// restartOver kills the kubelet, starts it with a configuration over running pods,
// and asserts that the kernel has the same of them as before.
func restartOver(t *testing.T, n *node.Node, config node.Config, pods []node.Manifest, before *report.Report) *report.Report {
	t.Helper()
	must(t, n.KillKubelet(ctx))
	must(t, n.StartKubelet(ctx, config))
	after := waitAll(t, n, pods)
	for _, m := range pods {
		old, now := before.Pod(m.NodeName), after.Pod(m.NodeName)
		equal(t, m.Name+": UID", now.UID, old.UID)
		equal(t, m.Name+": cpu.max", now.CPUMax, old.CPUMax)
		equal(t, m.Name+": memory.max", now.MemoryMax, old.MemoryMax)
		for _, c := range old.Containers {
			equal(t, m.Name+": container "+c.Name, kernelSide(*named(t, now, c.Name)), kernelSide(c))
		}
	}
	return after
}

// waitAll waits until all pods run and the CPU manager has looked at them.
func waitAll(t *testing.T, n *node.Node, pods []node.Manifest) *report.Report {
	t.Helper()
	for _, m := range pods {
		_, err := n.WaitRunning(ctx, m)
		must(t, err)
	}
	must(t, n.WaitReconciled(ctx, 2))
	r, err := n.WaitRunning(ctx, pods[0])
	must(t, err)
	return r
}

// kernelSide is a container without what the kubelet's API says of it, which is
// another thing with another gate.
func kernelSide(c report.Container) report.Container {
	c.Isolation, c.CPUIDs = "", ""
	return c
}

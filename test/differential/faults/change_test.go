// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"os"
	"path/filepath"
	"time"

	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/cpuset"
)

func turnOff(s *settings) { s.gateOff = true }

func static(cpus int, gates bool) func(*settings) {
	return func(s *settings) { onCPUs(cpus)(s); s.gateOff, s.policy = !gates, "none" }
}

const keptGateOff = "keeps what the pod has until it ends"

var changeFaults = []fault{
	{
		name: "gate-off-with-unused-cpus",
		what: "with the gate turned off, the kubelet does not start: CPUs of a budget that no container has are in no set that it knows",
		ours: keptGateOff,
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.admit("p cpu=4 memory=2Gi; app a cpu=2 memory=2Gi")
			n.restart(turnOff)
		},
	},
	{
		name: "gate-off-with-unused-memory",
		what: "the same with memory of a budget",
		ours: keptGateOff,
		play: func(n *node) {
			n.begin(onMemory(1, 16))
			n.admit("p cpu=2 memory=4Gi; app a cpu=2 memory=2Gi")
			n.restart(turnOff)
		},
	},
	{
		name: "gate-off-with-two-shared-containers",
		what: "with the gate turned off, the kubelet does not start if two containers share a pod's memory: it counts that twice",
		ours: keptGateOff,
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.admit("p cpu=2 memory=2Gi; app a; app b")
			n.restart(turnOff)
		},
	},
	{
		name: "gate-off-with-slice-and-pool",
		what: "the same with one exclusive and one shared container: two assignments where it recorded one",
		ours: keptGateOff,
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.admit("p cpu=3 memory=3Gi; app a cpu=2 memory=2Gi; app b")
			n.restart(turnOff)
		},
	},
	{
		name: "gate-off-with-sidecar",
		what: "the same with a sidecar that shares",
		ours: keptGateOff,
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.admit("p cpu=3 memory=3Gi; sidecar s; app a cpu=2 memory=2Gi")
			n.restart(turnOff)
		},
	},
	{
		name: "gate-off-lifts-quota-of-shared-containers",
		what: "with the gate turned off, a container that shares its pod's CPUs counts as one that has them alone: it loses its CFS quota",
		ours: "it keeps its isolation level, and with it its quota",
		play: func(n *node) {
			n.begin(onCPUs(8))
			pod := n.admit("p cpu=2 memory=2Gi; app a")
			n.mayMove(turnOff, "p")
			level := n.cpu.GetResourceIsolationLevel(pod, &pod.Spec.Containers[0])
			n.want(level == cmqos.ResourceIsolationPod, "the isolation level is %q and not \"pod\"", level)
		},
	},
	{
		name: "gate-on-refuses-pods-that-do-not-fit",
		what: "turning the gate on kills running pods whose budgets fit no NUMA node any more",
		ours: "gives them what fits, and kills none",
		play: func(n *node) {
			n.begin(func(s *settings) { s.machine = grid(2, 1, 5, 1, 16); s.gateOff, s.policy = true, "single-numa-node" })
			for _, name := range []string{"p", "q", "r"} {
				n.admit(name + " cpu=3 memory=1Gi; app a cpu=3 memory=1Gi")
			}
			n.mayMove(func(s *settings) { s.gateOff = false }, "p", "q", "r")
		},
	},
	{
		name: "gate-on-refuses-pods-with-empty-pool",
		what: "turning the gate on kills running pods whose slices leave nothing for their other containers",
		ours: "they go on in the node shared pool",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(8)(s); s.gateOff = true })
			n.admit("p cpu=2 memory=2Gi; app a cpu=2 memory=1Gi; app b")
			n.mayMove(func(s *settings) { s.gateOff = false }, "p")
		},
	},
	{
		name: "cpu-policy-change-on-idle-node",
		what: "another CPU manager policy stops the kubelet until its file is deleted, even if nothing is assigned",
		ours: "takes the file over",
		play: func(n *node) {
			n.begin(func(s *settings) { static(4, false)(s); s.cpuPolicy = "none" })
			n.restart(func(s *settings) { s.cpuPolicy = "static" })
		},
	},
	{
		name: "memory-policy-change-on-idle-node",
		what: "the same with the memory manager's",
		ours: "takes the file over",
		play: func(n *node) {
			n.begin(func(s *settings) { static(4, false)(s); s.memoryPolicy = "None" })
			n.restart(func(s *settings) { s.memoryPolicy = "Static" })
			n.restart(func(s *settings) { s.memoryPolicy = "None" })
		},
	},
	{
		name: "static-to-none-leaves-containers-bound",
		what: "after static was changed to none and the files were deleted, running containers stay bound to their CPUs",
		ours: "releases them, and needs no file deleted",
		play: func(n *node) {
			n.begin(static(4, false))
			pod := n.admit("p; app a cpu=2 memory=1Gi")
			id := containerID(pod, &pod.Spec.Containers[0])
			if n.side == upstream {
				must(os.Remove(filepath.Join(n.dir, cpuFile))) // it does not start otherwise
			}
			n.mayMove(func(s *settings) { s.cpuPolicy = "none" }, "p")
			for end := time.Now().Add(2 * time.Second); n.runtime.cpusetOf(id) == "1-2" && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			n.want(n.runtime.cpusetOf(id) == "0-3", "the container is still bound to CPUs %s of 0-3", n.runtime.cpusetOf(id))
		},
	},
	{
		name: "more-cpus-on-idle-node",
		what: "a node that got more CPUs does not start (79823)",
		ours: "they join the node shared pool",
		play: func(n *node) {
			n.begin(static(4, false))
			n.restart(func(s *settings) { s.machine = grid(1, 1, 5, 1, 16) })
			n.wantPool("0-4")
		},
	},
	{
		name: "cpu-of-running-pod-is-gone",
		what: "after a CPU was taken offline that a running pod has, the kubelet does not start (84333)",
		ours: "the pod keeps those that remain",
		play: func(n *node) {
			n.begin(static(6, false))
			pod := n.admit(cpus("p", 3))
			n.mayMove(func(s *settings) {
				m, err := s.machine.Without(cpuset.New(3))
				must(err)
				s.machine = m
			}, "p")
			n.want(n.exclusive(pod, "a").Equals(cpuset.New(1, 2)), "the pod has CPUs %s", n.exclusive(pod, "a"))
		},
	},
	{
		name: "larger-reservation-over-running-pods",
		what: "another set of reserved CPUs stops the kubelet when a pod has one of them",
		ours: "the pod keeps it",
		play: func(n *node) {
			n.begin(static(4, false))
			n.admit("p; app a cpu=1 memory=1Gi")
			n.restart(func(s *settings) { s.reserved = "0-1" })
		},
	},
	{
		name: "strict-reservation-turned-on",
		what: "turning strict-cpu-reservation on stops the kubelet, even if nothing is assigned",
		ours: "the reserved CPUs leave the node shared pool",
		play: func(n *node) {
			n.begin(static(4, false))
			n.restart(func(s *settings) { s.cpuOptions = []string{"strict-cpu-reservation"} })
			n.wantPool("1-3")
		},
	},
	{
		name: "strict-reservation-turned-off",
		what: "so does turning it off",
		ours: "they join it",
		play: func(n *node) {
			n.begin(func(s *settings) { static(4, false)(s); s.cpuOptions = []string{"strict-cpu-reservation"} })
			n.restart(func(s *settings) { s.cpuOptions = nil })
			n.wantPool("0-3")
		},
	},
	{
		name: "memory-moved-by-reboot",
		what: "a page more on one NUMA node and one less on another, as after a reboot, stop the kubelet, even if nothing is assigned (131253, 109996)",
		ours: "takes the sizes of today",
		play: func(n *node) {
			n.begin(onMemory(2, 8))
			n.restart(func(s *settings) { s.machine.Nodes[0].Memory += 4096; s.machine.Nodes[1].Memory -= 4096 })
		},
	},
	{
		name: "memory-reservation-changed-on-idle-node",
		what: "another reservation of memory does (80452)",
		ours: "takes that of today",
		play: func(n *node) {
			n.begin(onMemory(1, 8))
			n.restart(func(s *settings) { s.memoryReserved = map[int]string{0: "2Gi"} })
		},
	},
	{
		name: "hugepages-added-on-idle-node",
		what: "hugepages that were added do",
		ours: "takes those of today",
		play: func(n *node) {
			n.begin(onMemory(1, 8))
			n.restart(func(s *settings) { s.machine = withHugePages(s.machine, 512) })
		},
	},
}

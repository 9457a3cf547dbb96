// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// onTwoNodes is a node of two NUMA nodes with 8 CPUs and 16Gi each.
func onTwoNodes(s *settings) { s.machine = grid(2, 1, 8, 1, 16) }

// database is a pod whose slice takes all of its hugepages.
const database = "db cpu=4 memory=4Gi hugepages-2Mi=512Mi; sidecar log; app db cpu=3 memory=3Gi hugepages-2Mi=512Mi"

// wantReason wants a refusal to have this reason and to say this.
func (n *node) wantReason(result lifecycle.PodAdmitResult, reason, says string) {
	n.want(!result.Admit, "the pod is admitted")
	n.want(result.Reason == reason && strings.Contains(result.Message, says), "refused with %s", brief(result))
}

var admissionFaults = []fault{
	{
		name: "hugepages-keep-pod-out",
		what: "a pod whose slices use all of its hugepages is refused for a sidecar that uses none",
		ours: "admits it",
		play: func(n *node) {
			n.begin(func(s *settings) { onTwoNodes(s); s.machine = withHugePages(s.machine, 512) })
			n.admit(database)
		},
	},
	{
		name: "hugepages-keep-pod-out-best-effort",
		what: "the same under best-effort",
		ours: "admits it",
		play: func(n *node) {
			n.begin(func(s *settings) {
				onTwoNodes(s)
				s.machine, s.policy = withHugePages(s.machine, 512), "best-effort"
			})
			n.admit(database)
		},
	},
	{
		name: "hugepages-beside-budget-are-promised-twice",
		what: "hugepages that a container asks for and the budget does not name, as in a static pod, are not counted; two pods are promised the same",
		ours: "counts them as part of the budget",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(8)(s); s.machine = withHugePages(s.machine, 512) })
			n.admit("p cpu=2 memory=2Gi; app a cpu=2 memory=2Gi hugepages-2Mi=1Gi")
			_, result := n.try("q cpu=2 memory=2Gi; app a cpu=2 memory=2Gi hugepages-2Mi=1Gi")
			n.want(!result.Admit, "two pods with 1Gi of hugepages are admitted, and there is 1Gi")
		},
	},
	{
		name: "devices-not-allocated-at-admission",
		what: "a pod with a budget in scope pod gets no device at admission, only when its container starts",
		ours: "allocates devices at admission",
		play: func(n *node) {
			n.begin(func(s *settings) { onTwoNodes(s); s.devices = []int{0, 1} })
			pod, result := n.try("p cpu=2 memory=2Gi; app a cpu=2 memory=2Gi " + nic + "=1")
			n.want(result.Admit, "refused with %s", brief(result))
			n.want(len(n.devs.held[containerID(pod, &pod.Spec.Containers[0])]) == 1, "the container has no device")
		},
	},
	{
		name: "device-promised-twice",
		what: "two such pods are admitted for one device; one fails at its start",
		ours: "refuses the second",
		play: func(n *node) {
			n.begin(func(s *settings) { onTwoNodes(s); s.devices = []int{0} })
			n.try("p cpu=2 memory=2Gi; app a cpu=2 memory=2Gi " + nic + "=1")
			_, result := n.try("q cpu=2 memory=2Gi; app a cpu=2 memory=2Gi " + nic + "=1")
			n.want(!result.Admit, "two pods are admitted for one device")
		},
	},
	{
		name: "resize-of-budget-is-admitted",
		what: "a resize of a pod's budget is admitted, and CPUs and memory stay as they are",
		ours: "refused as Infeasible",
		play: func(n *node) {
			n.begin(onCPUs(8))
			pod := n.admit("p cpu=4 memory=4Gi; app a cpu=3 memory=3Gi; app b")
			larger := pod.DeepCopy()
			larger.Spec.Resources.Requests["cpu"] = resource.MustParse("6")
			larger.Spec.Resources.Limits["cpu"] = resource.MustParse("6")
			result := n.ask(larger, lifecycle.ResizeOperation)
			n.want(!result.Admit, "a budget of 6 CPUs is admitted, and the pod has %s", cpuText(n.cpu.GetPodCPUs("uid-p")))
			n.want(result.Reason == "Infeasible", "the reason is %s, for which it is tried for ever", result.Reason)
		},
	},
	{
		name: "refused-by-memory-keeps-cpus",
		what: "a pod that the memory manager refuses keeps the CPUs that it got before, until something else makes the CPU manager look",
		ours: "everything is given back before the refusal is returned",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(8)(s); s.policy = "best-effort" })
			_, result := n.try("p cpu=4 memory=32Gi; app a cpu=4 memory=32Gi")
			n.want(!result.Admit, "a pod of 32Gi is admitted to a node of 16Gi")
			n.wantPool("0-7")
		},
	},
	{
		name: "refused-half-way-keeps-cpus-for-ever",
		what: "a pod whose slices do not fit in its budget is refused half way, and its CPUs are never released",
		ours: "takes nothing unless it can take everything",
		play: func(n *node) {
			n.begin(onCPUs(8))
			_, result := n.try("p cpu=4 memory=4Gi; app a cpu=3 memory=2Gi; app b cpu=3 memory=2Gi")
			n.want(!result.Admit, "slices of 6 CPUs are admitted in a budget of 4")
			n.probe()
			n.wantPool("0-7")
		},
	},
	{
		name: "budget-that-is-no-number-of-bytes",
		what: "a pod whose memory budget has a fraction of a byte is admitted without any memory being taken",
		ours: "takes the next whole number of bytes",
		play: func(n *node) {
			n.begin(onMemory(1, 16))
			n.admit("p cpu=2 memory=1073741823500m; app a cpu=2 memory=1Mi")
			n.wantReserved("1Gi")
		},
	},
	{
		name: "reason-is-hidden-from-pod-with-budget",
		what: "a pod whose slices leave nothing for its other containers is refused as if NUMA nodes were the matter, under restricted and single-numa-node",
		ours: "names the rule and the containers",
		play: func(n *node) {
			n.begin(onCPUs(8))
			_, result := n.try("p cpu=2 memory=2Gi; app a cpu=2 memory=1Gi; app b")
			n.wantReason(result, "TopologyAffinityError", "leaving no cpus for shared containers")
		},
	},
	{
		name: "reason-is-hidden",
		what: "a refusal does not tell which resource is short, and where (123037)",
		ours: "tells what was asked and what each NUMA node has",
		play: func(n *node) {
			n.begin(func(s *settings) { onTwoNodes(s); s.gateOff, s.policy = true, "single-numa-node" })
			_, result := n.try("p; app a cpu=9 memory=1Gi")
			n.wantReason(result, "TopologyAffinityError", "cpu")
		},
	},
	{
		name: "memory-that-cannot-be-had-is-no-preference",
		what: "memory that no NUMA nodes have is taken for memory that may be anywhere; the pod fails later with another reason",
		ours: "the right reason",
		play: func(n *node) {
			n.begin(func(s *settings) { onTwoNodes(s); s.gateOff = true })
			_, result := n.try("p; app a cpu=1 memory=64Gi")
			n.wantReason(result, "TopologyAffinityError", "")
		},
	},
	{
		name: "restarted-container-loses-affinity",
		what: "the affinity of a container that is started again is forgotten; what is allocated to it then, such as a device in place of a lost one, may lie anywhere",
		ours: "kept as long as the pod is there",
		play: func(n *node) {
			n.begin(func(s *settings) { onTwoNodes(s); s.policy = "single-numa-node" })
			pod := n.admit("p cpu=2 memory=2Gi; app a cpu=2 memory=2Gi")
			c := &pod.Spec.Containers[0]
			must(n.topology.RemoveContainer(n.logger, containerID(pod, c)))
			n.addContainer(pod, c, "again")
			_, anywhere := n.nodesOf(string(pod.UID), c.Name)
			n.want(!anywhere, "the container has no affinity any more")
		},
	},
	{
		name: "resize-loses-affinity",
		what: "so is that of all containers of a pod that is resized",
		ours: "kept",
		play: func(n *node) {
			n.begin(func(s *settings) { onTwoNodes(s); s.gateOff, s.policy = true, "single-numa-node" })
			pod := n.admit("p; app a cpu=2 memory=2Gi")
			n.ask(pod, lifecycle.ResizeOperation)
			_, anywhere := n.nodesOf(string(pod.UID), "a")
			n.want(!anywhere, "the container has no affinity any more")
		},
	},
	{
		name: "memory-of-init-containers-is-not-looked-for",
		what: "in scope pod, kinds of memory that only init containers ask for do not count when NUMA nodes are chosen; the pod is refused on one that has none",
		ours: "all that any container asks for counts",
		play: func(n *node) {
			n.begin(func(s *settings) {
				onMemory(2, 16)(s)
				s.gateOff, s.policy, s.machine = true, "single-numa-node", withHugePages(s.machine, 64)
				s.machine.Nodes[1].HugePages[0].Pages = 256
			})
			n.admit("p; init i cpu=1 memory=1Gi hugepages-2Mi=256Mi; app a cpu=1 memory=1Gi")
		},
	},
	{
		name: "fraction-silently-costs-exclusive-cpus",
		what: "a budget with a fraction of a CPU takes away the exclusive CPUs of all containers, and nothing is said at the default verbosity (132445)",
		ours: "a warning names the container and the reason",
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.admit("p cpu=3500m memory=2Gi; app wants-three cpu=3 memory=1Gi; app b")
			told := false
			for line := range strings.Lines(n.log.String()) {
				told = told || strings.Contains(line, "wants-three") && strings.Contains(line, "exclusive CPUs")
			}
			n.want(told, "the log says nothing of the container and exclusive CPUs")
		},
	},
}

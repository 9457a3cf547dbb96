// SPDX-License-Identifier: Apache-2.0

package faults

// elsewhere are reports that have no scenario here.
var elsewhere = []struct{ what, why string }{
	{"a pod with a sidecar, a container with requests, and hugepages ends up without hugepages (pull request 141991)", "the kubelet's cgroup code; see differences.md"},
	{"a cpuset that something else changes is not repaired (138731)", "the same here, see differences.md"},
	{"a pod that fits only if others never used what they were promised is refused (110216)", "the same here, with the reason; see memory-manager.md"},
	{"all pods pile up on NUMA node 0 (125453); under best-effort a device's node scatters CPUs (106270, 136431)", "the same here unless an option says otherwise, see topology-manager.md"},
	{"restricted refuses a pod where free CPUs are scattered (84597)", "that is what the policy means; the refusal says so"},
	{"pods that ended while the kubelet was down hold their resources until all sources of pods have reported", "the same here: until then nobody can know that they ended"},
	{"resources of terminating pods are still taken (104560, 106884)", "the same here: their containers still use them"},
	{"running pods are refused at a start because a device plugin has not registered yet, or for init containers' devices (133382, 138446)", "the device manager's own checkpoint and refusal"},
	{"processes that are not in containers run on exclusive CPUs", "the kubelet's and the runtime's cgroups"},
	{"state files of development versions of 1.36 and 1.37 that older kubelets reject (137750, 139069), or with entries of pods that never were (139050)", "fixed in v1.37.2; the formats are compared in the tests of state files"},
	{"containers without requests are counted as memory allocations in scope container (138770)", "fixed in v1.37.2"},
	{"a resize is taken for an admission (140224)", "fixed in v1.37.2"},
	{"a pod with fractions of CPUs cannot be resized under static, although nothing of it is exclusive (140480)", "decided by the kubelet before it asks the managers"},
	{"defaults and QoS class of pod-level resources (136676, 136120, 137150, 135082), status read from cgroups (137660), pod memory.min on a resize (140262), quota for pod overhead (140249)", "API server and other parts of the kubelet"},
	{"a first allocation is lost while the second container is admitted (103952), an init container's CPU in two sets (107906), a cpuset lost when a container restarts (90303, 91668)", "fixed before v1.37.2"},
	{"kueue, kube-state-metrics, istio and node-feature-discovery do not read pod-level resources", "other projects"},
}

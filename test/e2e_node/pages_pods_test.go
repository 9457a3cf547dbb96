// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podslice/podslice/test/e2e_node/node"
)

const (
	mi            = 1 << 20
	hugePage      = 2 * mi
	resourceHuge  = "hugepages-2Mi"
	pagesFolder   = "/run/pagewitness"
	writtenMemory = 64 * mi // of ordinary pages, by each container
)

// Where a container's memory must be bound to, if no node numbers say it.
const (
	unbound  = ""             // anywhere
	itsNodes = "of its CPUs"  // to the NUMA nodes of its CPUs
	oneNode  = "one of these" // to those, and it is only one
)

// amounts are resources; memory and hugepages in bytes.
type amounts struct {
	cpus         int
	memory, huge int64
}

// pagesContainer is a container that writes memory.
type pagesContainer struct {
	name    string
	sidecar bool
	own     amounts // its own requests = limits; none: it shares
	huge    int64   // bytes of hugepages that it writes
	mems    string  // NUMA nodes that its memory must be bound to
}

// pagesPod is a pod of such containers. With a budget and scope pod, what the
// containers' own amounts leave is its shared pool.
type pagesPod struct {
	name       string
	budget     amounts
	burstable  bool // a little CPU and hugepages, nothing of its own
	containers []pagesContainer
}

// pagesCase is a kubelet and what is given to it, one pod after the other.
type pagesCase struct {
	name, policy, scope string
	huge                int64 // hugepages of 2Mi on each NUMA node, in bytes
	pods                []pagesPod
}

// NUMA node 0 has 10 CPUs that can be given out and node 1 has 12.
//
// No pod has all three: a sidecar, an application container with amounts of its
// own, and hugepages. That container starts after the sandbox; the kubelet of
// v1.37.2, outside of the managers, takes it for one that was resized, writes the
// pod's CPU weight, and with it a hugetlb limit of 0 (kubernetes/kubernetes pull
// request 141991).
var pagesCases = []pagesCase{
	{
		name: "pod scope, pods on one node", policy: "single-numa-node", scope: "pod", huge: 128 * mi,
		pods: []pagesPod{
			// Only node 1 has as many CPUs; what comes next has only node 0.
			{name: "first", budget: amounts{12, 512 * mi, 64 * mi}, containers: []pagesContainer{
				{name: "slice", own: amounts{8, 192 * mi, 32 * mi}, huge: 32 * mi, mems: "1"},
				{name: "sharer", huge: 16 * mi, mems: "1"},
				{name: "another", huge: 16 * mi, mems: "1"},
			}},
			{name: "second", budget: amounts{4, 512 * mi, 64 * mi}, containers: []pagesContainer{
				{name: "slice", own: amounts{2, 192 * mi, 32 * mi}, huge: 32 * mi, mems: "0"},
				{name: "sharer", huge: 32 * mi, mems: "0"},
			}},
			{name: "third", budget: amounts{cpus: 4, memory: 512 * mi}, containers: []pagesContainer{
				{name: "sidecar", sidecar: true, mems: "0"},
				{name: "slice", own: amounts{cpus: 2, memory: 192 * mi}, mems: "0"},
			}},
			// Nothing binds it: its pages must be seen on both nodes, or the test
			// would not see pages that lie on a wrong one.
			{name: "control", burstable: true, containers: []pagesContainer{
				{name: "any", huge: 16 * mi, mems: unbound},
			}},
		},
	},
	{
		// All CPUs that there are, and more hugepages than a node has. Each of the
		// slices fits on one node, but not on that of the other.
		name: "pod scope, slices on both nodes", policy: "restricted", scope: "pod", huge: 64 * mi,
		pods: []pagesPod{
			{name: "slices", budget: amounts{22, 768 * mi, 96 * mi}, containers: []pagesContainer{
				{name: "sharer", huge: 32 * mi, mems: itsNodes},
				{name: "left", own: amounts{10, 192 * mi, 32 * mi}, huge: 32 * mi, mems: oneNode},
				{name: "right", own: amounts{9, 192 * mi, 32 * mi}, huge: 32 * mi, mems: oneNode},
			}},
		},
	},
	{
		// One after the other, the second slice would have 2 CPUs of node 0 and 7 of
		// node 1. Each on its own node, they leave a pool on both.
		name: "pod scope, slices that must not be taken one after the other", policy: "restricted", scope: "pod", huge: 64 * mi,
		pods: []pagesPod{
			{name: "order", budget: amounts{22, 768 * mi, 96 * mi}, containers: []pagesContainer{
				{name: "sharer", huge: 32 * mi, mems: "0-1"},
				{name: "left", own: amounts{8, 192 * mi, 32 * mi}, huge: 32 * mi, mems: oneNode},
				{name: "right", own: amounts{9, 192 * mi, 32 * mi}, huge: 32 * mi, mems: oneNode},
			}},
		},
	},
	{
		name: "pod scope, a pool on both nodes", policy: "restricted", scope: "pod", huge: 64 * mi,
		pods: []pagesPod{
			{name: "pool", budget: amounts{14, 512 * mi, 96 * mi}, containers: []pagesContainer{
				{name: "sidecar", sidecar: true, huge: 48 * mi, mems: "0-1"},
				{name: "sharer", huge: 48 * mi, mems: "0-1"},
			}},
		},
	},
	{
		name: "container scope", policy: "single-numa-node", scope: "container", huge: 128 * mi,
		pods: []pagesPod{
			// Both fit on node 0 but for their hugepages: here memory decides.
			{name: "spread", containers: []pagesContainer{
				{name: "low", own: amounts{2, 192 * mi, 96 * mi}, huge: 96 * mi, mems: "0"},
				{name: "high", own: amounts{2, 192 * mi, 96 * mi}, huge: 96 * mi, mems: "1"},
			}},
			// Node 0 has 8 CPUs left.
			{name: "budgeted", budget: amounts{10, 512 * mi, 32 * mi}, containers: []pagesContainer{
				{name: "sharer", huge: 8 * mi, mems: unbound},
				{name: "slice", own: amounts{9, 192 * mi, 16 * mi}, huge: 16 * mi, mems: "1"},
			}},
		},
	},
}

// pool is what the containers with amounts of their own leave of the budget.
func (p pagesPod) pool() amounts {
	left := p.budget
	for _, c := range p.containers {
		left.cpus, left.memory, left.huge = left.cpus-c.own.cpus, left.memory-c.own.memory, left.huge-c.own.huge
	}
	return left
}

// resultFile is the name of a container's result.
func (p pagesPod) resultFile(c pagesContainer) string { return p.name + "." + c.name }

func (p pagesPod) manifest(t *testing.T) node.Manifest {
	volume := func(name, folder string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: folder}}}
	}
	pod := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: p.name, Namespace: "default"},
		Spec: v1.PodSpec{
			// No pod needs a network, and setting one up is most of a start.
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Volumes:                       []v1.Volume{volume("programs", node.Programs), volume("pages", pagesFolder)},
		},
	}
	if p.budget.cpus > 0 {
		r := p.budget.requirements()
		pod.Spec.Resources = &r
	}
	for _, c := range p.containers {
		spec := v1.Container{
			Name: c.name, Image: node.ImageBusybox, ImagePullPolicy: v1.PullNever,
			Command: []string{"/programs/pagewitness", "-out", "/pages/" + p.resultFile(c),
				"-small", fmt.Sprint(writtenMemory), "-huge", fmt.Sprint(c.huge)},
			VolumeMounts: []v1.VolumeMount{
				{Name: "programs", MountPath: "/programs", ReadOnly: true},
				{Name: "pages", MountPath: "/pages"},
			},
		}
		switch {
		case c.own.cpus > 0:
			spec.Resources = c.own.requirements()
		case p.burstable:
			huge := *resource.NewQuantity(c.huge, resource.BinarySI)
			spec.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), resourceHuge: huge}
			spec.Resources.Limits = v1.ResourceList{resourceHuge: huge}
		}
		if c.sidecar {
			spec.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, spec)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, spec)
		}
	}
	return manifest(t, pod)
}

// requirements are requests = limits.
func (a amounts) requirements() v1.ResourceRequirements {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(a.cpus), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(a.memory, resource.BinarySI),
	}
	if a.huge > 0 {
		list[resourceHuge] = *resource.NewQuantity(a.huge, resource.BinarySI)
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

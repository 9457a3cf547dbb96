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
	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/test/e2e_node/node"
)

// witnessFolder is where the containers of TestExclusiveFromFirstInstruction
// meet; it is in memory.
const witnessFolder = "/run/cpuwitness"

// Pauses between a sharer's rounds over the CPUs, for the one that is always
// there and for those that come and go. One thread emulates all CPUs, and a round
// keeps it busy for some 30 ms: without a pause everything else would take three
// times as long. What may run on a CPU is known without any round.
const (
	spinnerPause = "300ms"
	sidecarPause = "2s"
)

// roundPods are the pods of a round, as many as are needed for so many exclusive
// containers or all that fit on the default shape, and how many such containers
// they have. With 10 and 12 CPUs on its NUMA nodes, 14 are taken when the last
// pod comes, which needs 4 on one node. Sizes change places from round to round.
func roundPods(t *testing.T, round, want int) (pods []node.Manifest, owners int) {
	name := func(s string) string { return fmt.Sprintf("%s-%d", s, round) }
	own := func(s string, shared int, sizes ...int) {
		if owners < want {
			pods, owners = append(pods, owningPod(t, name(s), shared, sizes...)), owners+len(sizes)
		}
	}
	size := func(i int) int { return 1 + (round+i)%3 } // 1, 2 and 3 in some order
	own("slices", 2, 1, 1, 1)
	pods = append(pods, sharingPod(t, name("newcomer"), sidecarPause))
	own("one", 0, size(0))
	own("two", 0, size(1))
	own("three", 0, size(2))
	own("trio", 0, 1, 1, 1)
	own("more", 1, 1, 1, 1)
	return pods, owners
}

// owningPod has one exclusive container for each of the sizes. With shared CPUs
// it has a budget of all together, and a sidecar that spins over the rest.
func owningPod(t *testing.T, name string, shared int, sizes ...int) node.Manifest {
	pod := witnessPod(name)
	budget := shared
	for i, size := range sizes {
		c := witnessContainer(fmt.Sprintf("own%d", i), "own", fmt.Sprintf("%s/own%d", name, i))
		c.Resources = cpusAndMemory(size)
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		budget += size
	}
	if shared > 0 {
		sidecar := witnessContainer("sidecar", "share", sidecarPause)
		sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		pod.Spec.InitContainers = []v1.Container{sidecar}
		r := cpusAndMemory(budget)
		pod.Spec.Resources = &r
	}
	return manifest(t, pod)
}

// sharingPod is a BestEffort pod, in the node shared pool.
func sharingPod(t *testing.T, name, pause string) node.Manifest {
	pod := witnessPod(name)
	pod.Spec.Containers = []v1.Container{witnessContainer("share", "share", pause)}
	return manifest(t, pod)
}

func witnessPod(name string) *v1.Pod {
	volume := func(name, folder string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: folder}}}
	}
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: v1.PodSpec{
			// Owners look at sharers by process number.
			HostPID: true,
			// No pod needs a network, and setting one up is most of a start.
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: ptr.To[int64](1),
			Volumes:                       []v1.Volume{volume("programs", node.Programs), volume("witness", witnessFolder)},
		},
	}
}

func witnessContainer(name, verb, argument string) v1.Container {
	return v1.Container{
		Name:            name,
		Image:           node.ImageBusybox,
		ImagePullPolicy: v1.PullNever,
		Command:         []string{"/programs/cpuwitness", "-dir", "/witness", verb, argument},
		VolumeMounts: []v1.VolumeMount{
			{Name: "programs", MountPath: "/programs", ReadOnly: true},
			{Name: "witness", MountPath: "/witness"},
		},
	}
}

func cpusAndMemory(cpus int) v1.ResourceRequirements {
	list := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(cpus), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(cpus)<<28, resource.BinarySI),
	}
	return v1.ResourceRequirements{Requests: list, Limits: list}
}

func manifest(t *testing.T, pod *v1.Pod) node.Manifest {
	t.Helper()
	data, err := yaml.Marshal(pod)
	must(t, err)
	m, err := node.ParseManifest(data)
	must(t, err)
	return m
}

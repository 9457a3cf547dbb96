// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// BenchmarkHints asks both for the hints of a container that fits on one node
// of a machine, or needs a few, for one to four resources. Nobody else is on the
// machine, or others are on single nodes and on a few together. Upstream, which
// tries every set of nodes, is left out where that takes minutes.
func BenchmarkHints(b *testing.B) {
	for _, nodes := range []int{2, 4, 8, 12, 16, 20, 24, 36} {
		for _, resources := range []int{1, 2, 3, 4} {
			for _, needs := range []int{1, 3} {
				if needs > nodes {
					continue
				}
				for _, busy := range []bool{false, true} {
					benchmarkHints(b, nodes, resources, needs, busy)
				}
			}
		}
	}
}

func benchmarkHints(b *testing.B, nodes, resources, needs int, busy bool) {
	topology := make([]cadvisorapi.Node, nodes)
	for i := range topology {
		topology[i] = cadvisorapi.Node{Id: i, Memory: 16 * 1024 * mi, HugePages: []cadvisorapi.HugePagesInfo{
			{PageSize: 2048, NumPages: 1024}, {PageSize: 64, NumPages: 16384}, {PageSize: 1 << 20, NumPages: 4},
		}}
	}
	w := newTwins(b, topology)
	list := v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(int64(7*1024*mi*(needs-1)+512*mi), resource.BinarySI)}
	for _, name := range []v1.ResourceName{"hugepages-2Mi", "hugepages-64Ki", "hugepages-1Gi"}[:resources-1] {
		list[name] = *resource.NewQuantity(1024*mi, resource.BinarySI)
	}
	guaranteed := func(uid string, list v1.ResourceList) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: uid, Namespace: "default", UID: types.UID(uid)},
			Status:     v1.PodStatus{QOSClass: v1.PodQOSGuaranteed},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}},
		}
	}
	if busy {
		small := v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(256*mi, resource.BinarySI)}
		for i := range nodes {
			// Sets that are equal or apart, so that upstream can have them too: pairs
			// in the first half of the nodes, single ones in half of the rest.
			switch {
			case i < nodes/2 && i+1 < nodes/2:
				w.answer = affinity{nodes: numa.SetOf(i&^1, i|1)}
			case i >= nodes/2 && i%2 == 0:
				w.answer = affinity{nodes: numa.SetOf(i)}
			default:
				continue
			}
			other := guaranteed(fmt.Sprint("other", i), small)
			w.active = append(w.active, other)
			require.NoError(b, w.ours.Allocate(quietly, other, &other.Spec.Containers[0], add))
			require.NoError(b, w.theirs.Allocate(quietly, w.theirState, other, &other.Spec.Containers[0], add))
		}
	}
	pod := guaranteed("p", list)
	w.active = append(w.active, pod)
	name := fmt.Sprintf("nodes=%d/resources=%d/needs=%d/busy=%t", nodes, resources, needs, busy)
	b.Run(name+"/ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.ours.GetTopologyHints(quiet, pod, &pod.Spec.Containers[0], add)
		}
	})
	if nodes > 20 || nodes > 16 && resources > 1 {
		return
	}
	b.Run(name+"/upstream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.theirs.GetTopologyHints(quiet, w.theirState, pod, &pod.Spec.Containers[0], add)
		}
	})
}

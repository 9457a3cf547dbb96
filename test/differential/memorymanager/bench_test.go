// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkHints asks both for the hints of a container that fits on one node
// of an idle machine, or needs a few. Upstream takes seconds for 20 nodes.
func BenchmarkHints(b *testing.B) {
	for _, nodes := range []int{2, 8, 12, 16, 20} {
		for _, needs := range []int{1, 3} {
			if needs > nodes {
				continue
			}
			topology := make([]cadvisorapi.Node, nodes)
			for i := range topology {
				topology[i] = cadvisorapi.Node{Id: i, Memory: 8 * 1024 * mi, HugePages: []cadvisorapi.HugePagesInfo{{PageSize: 2048, NumPages: 512}}}
			}
			w := newTwins(b, topology)
			list := v1.ResourceList{
				v1.ResourceMemory: *resource.NewQuantity(int64(6*1024*mi*(needs-1)+1024*mi), resource.BinarySI),
				"hugepages-2Mi":   *resource.NewQuantity(2*mi, resource.BinarySI),
			}
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "p"},
				Status:     v1.PodStatus{QOSClass: v1.PodQOSGuaranteed},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list, Limits: list}}}},
			}
			w.active = []*v1.Pod{pod}
			b.Run(fmt.Sprintf("nodes=%d/needs=%d/ours", nodes, needs), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w.ours.GetTopologyHints(quiet, pod, &pod.Spec.Containers[0], add)
				}
			})
			b.Run(fmt.Sprintf("nodes=%d/needs=%d/upstream", nodes, needs), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w.theirs.GetTopologyHints(quiet, w.theirState, pod, &pod.Spec.Containers[0], add)
				}
			})
		}
	}
}

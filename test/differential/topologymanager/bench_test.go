// SPDX-License-Identifier: Apache-2.0

package topologymanager_test

import (
	"context"
	"fmt"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	theirs "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	ours "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// someMasks are the masks of up to widest nodes out of the given ones, and the
// mask of all; that of home alone is preferred.
func someMasks(ids []int, widest, home int) (list []hint) {
	var walk func(from int, chosen []int)
	walk = func(from int, chosen []int) {
		if len(chosen) > 0 {
			list = append(list, hint{nodes: append([]int{}, chosen...), preferred: len(chosen) == 1 && chosen[0] == home})
		}
		for i := from; i < len(ids) && len(chosen) < widest; i++ {
			walk(i+1, append(chosen, ids[i]))
		}
	}
	walk(0, nil)
	if widest < len(ids) {
		list = append(list, hint{nodes: ids})
	}
	return list
}

func firstIDs(n int) (ids []int) {
	for id := range n {
		ids = append(ids, id)
	}
	return ids
}

// BenchmarkMerge merges lists of every mask. In "apart" each resource prefers
// another node, so that nothing is preferred and all that can be reached counts;
// in "agreed" all prefer the same. From 16 nodes on the lists are those of up to
// 3 nodes and the mask of all, as providers give them on such machines; and
// "2 with CPUs" is a machine of 36 nodes, of which CPUs lie on two, memory on
// six and devices on four.
func BenchmarkMerge(b *testing.B) {
	silent := klog.Logger{}
	run := func(name string, nodes int, upstream bool, lists ...[]hint) {
		w := world{ids: firstIDs(nodes), rows: map[int][]uint64{}}
		var our []map[string][]ours.TopologyHint
		var their []map[string][]theirs.TopologyHint
		product := 1
		for i, list := range lists {
			a := answer{fmt.Sprintf("r%d", i): list}
			our = append(our, in(a, hint.ours))
			their = append(their, in(a, hint.theirs))
			product = min(product*len(list), 1<<40)
		}
		b.Run(name+"/ours", func(b *testing.B) {
			p := ours.NewBestEffortPolicy(w.ours())
			b.ReportAllocs()
			for b.Loop() {
				p.Merge(silent, our)
			}
		})
		b.Run(name+"/upstream", func(b *testing.B) {
			if !upstream || product > 20_000_000 {
				b.Skipf("%d choices", product)
			}
			p := theirs.NewBestEffortPolicy(w.theirs())
			b.ReportAllocs()
			for b.Loop() {
				p.Merge(silent, their)
			}
		})
	}
	for _, kind := range []string{"agreed", "apart"} {
		for _, n := range []int{2, 4, 8, 12, 16, 36, 64} {
			for _, resources := range []int{2, 3, 4} {
				widest := n
				if n >= 16 {
					widest = 3
				}
				var lists [][]hint
				for i := range resources {
					home := n - 1
					if kind == "apart" {
						home = i % n
					}
					lists = append(lists, someMasks(firstIDs(n), widest, home))
				}
				run(fmt.Sprintf("nodes=%d/resources=%d/%s", n, resources, kind), n, n <= 8, lists...)
			}
		}
	}
	run("nodes=36, 2 with CPUs/resources=4", 36, false,
		someMasks([]int{0, 1}, 2, 0), someMasks([]int{0, 1, 2, 10, 18, 26}, 6, 1), someMasks([]int{0, 1, 2, 10, 18, 26}, 6, 1), someMasks([]int{2, 10, 18, 26}, 4, 2))
}

// BenchmarkAdmission admits a pod of three containers in scope container, with
// providers that answer at once: what is measured is the topology manager.
func BenchmarkAdmission(b *testing.B) {
	pod := &v1.Pod{}
	pod.UID = "uid"
	for _, name := range []string{"a", "b", "c"} {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
	}
	attrs := &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation}
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	for _, n := range []int{2, 4, 8, 16, 36, 64} {
		var topology []cadvisorapi.Node
		for id := range n {
			topology = append(topology, cadvisorapi.Node{Id: id})
		}
		widest := min(n, 8)
		if n > 8 {
			widest = 3
		}
		list := someMasks(firstIDs(n), widest, 1)
		b.Run(fmt.Sprintf("nodes=%d/ours", n), func(b *testing.B) {
			m, err := ours.NewManager(klog.Logger{}, topology, "restricted", "container", nil)
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range []string{"cpu", "memory"} {
				m.AddHintProvider(klog.Logger{}, &fixed[ours.TopologyHint]{in(answer{name: list}, hint.ours)})
			}
			b.ReportAllocs()
			for b.Loop() {
				if !m.Admit(ctx, attrs).Admit {
					b.Fatal("refused")
				}
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/upstream", n), func(b *testing.B) {
			if n > 8 {
				b.Skip("more than 8 nodes")
			}
			m, err := theirs.NewManager(klog.Logger{}, topology, "restricted", "container", nil)
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range []string{"cpu", "memory"} {
				m.AddHintProvider(klog.Logger{}, &fixed[theirs.TopologyHint]{in(answer{name: list}, hint.theirs)})
			}
			b.ReportAllocs()
			for b.Loop() {
				if !m.Admit(ctx, attrs).Admit {
					b.Fatal("refused")
				}
			}
		})
	}
}

// fixed is a provider that has its answer ready and admits everything.
type fixed[H any] struct{ hints map[string][]H }

func (f *fixed[H]) GetTopologyHints(klog.Logger, *v1.Pod, *v1.Container, lifecycle.Operation) map[string][]H {
	return f.hints
}

func (f *fixed[H]) GetPodTopologyHints(klog.Logger, *v1.Pod, lifecycle.Operation) map[string][]H {
	return f.hints
}

func (f *fixed[H]) AllocatePod(klog.Logger, *v1.Pod, lifecycle.Operation) error { return nil }

func (f *fixed[H]) Allocate(context.Context, *v1.Pod, *v1.Container, lifecycle.Operation) error {
	return nil
}

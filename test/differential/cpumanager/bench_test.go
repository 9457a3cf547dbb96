// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"fmt"
	"testing"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// benchShape is a machine with two threads a core and as many sockets as NUMA
// nodes up to 2.
type benchShape struct{ cpus, nodes int }

func benchShapes() []benchShape {
	var shapes []benchShape
	for _, cpus := range []int{64, 384, 1024, 4096} {
		for _, nodes := range []int{1, 2, 4, 8, 16} {
			shapes = append(shapes, benchShape{cpus, nodes})
		}
	}
	return shapes
}

func (s benchShape) machine() machine {
	sockets := min(s.nodes, 2)
	return newMachine(sockets, s.nodes/sockets, s.cpus/2/s.nodes, 2, false, false)
}

// compare measures both sides on every shape. Shapes on which one run of the
// kubelet's takes longer than about ten seconds are left to ours.
func compare(b *testing.B, possible func(benchShape) bool, upstream, ours func(machine) func() error) {
	for _, shape := range benchShapes() {
		m := shape.machine()
		for _, side := range []struct {
			name string
			make func(machine) func() error
		}{{"upstream", upstream}, {"ours", ours}} {
			if side.name == "upstream" && !possible(shape) {
				continue
			}
			b.Run(fmt.Sprintf("cpus=%d/nodes=%d/%s", shape.cpus, shape.nodes, side.name), func(b *testing.B) {
				step := side.make(m)
				b.ReportAllocs()
				for b.Loop() {
					if err := step(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkHints asks for the hints of a container with 16 CPUs on an idle node.
func BenchmarkHints(b *testing.B) {
	pod := guaranteedPod("p", 16)
	compare(b, func(s benchShape) bool { return s.nodes <= 8 || s.cpus <= 384 },
		func(m machine) func() error {
			policy, _ := cpumanager.NewStaticPolicy(quiet, m.upstream, 2, cpuset.New(), &affinity{}, nil)
			s := state.NewMemoryState(quiet)
			_ = policy.Start(quiet, s)
			return func() error {
				policy.GetTopologyHints(quiet, s, pod, &pod.Spec.Containers[0], lifecycle.AddOperation)
				return nil
			}
		},
		func(m machine) func() error {
			node, _ := cpuplan.NewNode(m.ours, cpuplan.Set{}, 2, cpuplan.Options{})
			return func() error {
				plan, err := podplan.FromSpec(pod, podplan.Facts{Guaranteed: true})
				node.ContainerHints(cpuplan.State{}, plan, plan.Containers[0])
				return err
			}
		})
}

// BenchmarkPacked gives 33 CPUs to a container on an idle node, packed.
func BenchmarkPacked(b *testing.B) {
	benchAllocate(b, func(int) int { return 33 }, nil, cpuplan.Options{}, func(benchShape) bool { return true })
}

// BenchmarkDistributed gives out half the machine and 3 CPUs, spread over NUMA
// nodes.
func BenchmarkDistributed(b *testing.B) {
	benchAllocate(b, func(cpus int) int { return cpus/2 + 3 },
		map[string]string{cpumanager.DistributeCPUsAcrossNUMAOption: "true"}, cpuplan.Options{DistributeAcrossNUMA: true},
		func(s benchShape) bool { return s.nodes <= 8 })
}

func benchAllocate(b *testing.B, count func(cpus int) int, theirOptions map[string]string, ourOptions cpuplan.Options, possible func(benchShape) bool) {
	compare(b, possible,
		func(m machine) func() error {
			pod := guaranteedPod("p", count(m.ours.All().Size()))
			policy, err := cpumanager.NewStaticPolicy(quiet, m.upstream, 2, cpuset.New(), &affinity{}, theirOptions)
			return func() error {
				if err != nil {
					return err
				}
				s := state.NewMemoryState(quiet)
				s.SetDefaultCPUSet(m.upstream.CPUDetails.CPUs())
				return policy.Allocate(quiet, s, pod, &pod.Spec.Containers[0], lifecycle.AddOperation)
			}
		},
		func(m machine) func() error {
			pod := guaranteedPod("p", count(m.ours.All().Size()))
			node, err := cpuplan.NewNode(m.ours, cpuplan.Set{}, 2, ourOptions)
			return func() error {
				if err != nil {
					return err
				}
				plan, err := podplan.FromSpec(pod, podplan.Facts{Guaranteed: true})
				if err == nil {
					_, err = node.PlanContainer(cpuplan.State{}, plan, plan.Containers[0], numa.Hint{Any: true})
				}
				return err
			}
		})
}

// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/test/simnode"
)

// providers is between the kubelet's podresources server and the managers, and
// does what the kubelet's container manager does there. That one is compiled
// against the kubelet's own managers.
type providers struct{ *simnode.Node }

func (p providers) GetActivePods() []*v1.Pod { return p.Active() }
func (p providers) GetPods() []*v1.Pod       { return p.Active() }
func (p providers) GetPodByName(_, name string) (*v1.Pod, bool) {
	pod := p.Pod(name)
	return pod, pod != nil
}

func (p providers) GetCPUs(pod *v1.Pod, c *v1.Container) []int64 {
	if p.CPU.GetResourceIsolationLevel(pod, c) != cmqos.ResourceIsolationContainer {
		return nil
	}
	return ids(p.CPU.GetExclusiveCPUs(string(pod.UID), c.Name))
}

func (p providers) GetPodCPUs(uid string) []int64 { return ids(p.CPU.GetPodCPUs(uid)) }
func (p providers) GetAllocatableCPUs() []int64   { return ids(p.CPU.GetAllocatableCPUs()) }

func (p providers) GetMemory(logger klog.Logger, pod *v1.Pod, c *v1.Container) []*podresourcesapi.ContainerMemory {
	if p.Memory.GetResourceIsolationLevel(pod, c) != cmqos.ResourceIsolationContainer {
		return nil
	}
	return blocks(p.Memory.GetMemory(logger, string(pod.UID), c.Name))
}

func (p providers) GetPodMemory(_ klog.Logger, uid string) []*podresourcesapi.ContainerMemory {
	return blocks(p.Memory.GetPodMemory(uid))
}

func (p providers) GetAllocatableMemory(logger klog.Logger) []*podresourcesapi.ContainerMemory {
	return blocks(p.Memory.GetAllocatableMemory(logger))
}

func (providers) UpdateAllocatedDevices(klog.Logger)                                    {}
func (providers) GetDevices(string, string) []*podresourcesapi.ContainerDevices         { return nil }
func (providers) GetAllocatableDevices(klog.Logger) []*podresourcesapi.ContainerDevices { return nil }
func (providers) GetDynamicResources(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}

func ids(cpus cpuset.CPUSet) (list []int64) {
	for _, id := range cpus.List() {
		list = append(list, int64(id))
	}
	return list
}

func blocks(list []state.Block) (memory []*podresourcesapi.ContainerMemory) {
	for _, b := range list {
		m := &podresourcesapi.ContainerMemory{MemoryType: string(b.Type), Size: b.Size, Topology: &podresourcesapi.TopologyInfo{}}
		for _, id := range b.NUMAAffinity {
			m.Topology.Nodes = append(m.Topology.Nodes, &podresourcesapi.NUMANode{ID: int64(id)})
		}
		memory = append(memory, m)
	}
	return memory
}

// seen is what a client of the podresources API makes of a pod, by its answer
// alone.
type seen struct {
	cpus, pool cpuset.CPUSet
	// memory and left are by type: the pod's, and what no container has of it.
	memory, left map[string]uint64
	containers   map[string]*podresourcesapi.ContainerResources
}

func see(pod *podresourcesapi.PodResources) seen {
	s := seen{cpus: setOf(pod.CpuIds), memory: map[string]uint64{}, containers: map[string]*podresourcesapi.ContainerResources{}}
	for _, m := range pod.Memory {
		s.memory[m.MemoryType] += m.Size
	}
	s.pool, s.left = s.cpus, maps.Clone(s.memory)
	for _, c := range pod.Containers {
		s.containers[c.Name] = c
		s.pool = s.pool.Difference(setOf(c.CpuIds))
		for _, m := range c.Memory {
			if _, ok := s.left[m.MemoryType]; ok {
				s.left[m.MemoryType] -= m.Size
			}
		}
	}
	return s
}

func setOf(list []int64) cpuset.CPUSet {
	var ids []int
	for _, id := range list {
		ids = append(ids, int(id))
	}
	return cpuset.New(ids...)
}

func amounts(sizes map[string]uint64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if sizes[name] > 0 {
			parts = append(parts, name+" "+resource.NewQuantity(int64(sizes[name]), resource.BinarySI).String())
		}
	}
	return strings.Join(parts, " ")
}

func sizes(memory []*podresourcesapi.ContainerMemory) map[string]uint64 {
	all := map[string]uint64{}
	for _, m := range memory {
		all[m.MemoryType] += m.Size
	}
	return all
}

// listPodResources asks the kubelet's podresources server about all pods, writes
// what a client can tell of them, and holds that against where containers run:
// each that is reported to have CPUs or memory runs on these and no others, and
// each that shares its pod's runs on what the client takes for the pod shared
// pool.
func listPodResources(t *testing.T, n *simnode.Node) string {
	ctx := klog.NewContext(context.Background(), n.Logger)
	p := providers{n}
	server := podresources.NewV1PodResourcesServer(ctx, podresources.PodResourcesProviders{Pods: p, Devices: p, Cpus: p, Memory: p, DynamicResources: p})
	list, err := server.List(ctx, &podresourcesapi.ListPodResourcesRequest{})
	require.NoError(t, err)
	var b strings.Builder
	for i, answer := range list.PodResources {
		pod := n.Active()[i]
		one, err := server.Get(ctx, &podresourcesapi.GetPodResourcesRequest{PodName: pod.Name, PodNamespace: pod.Namespace})
		require.NoError(t, err)
		require.Equal(t, answer.String(), one.PodResources.String())
		s := see(answer)
		fmt.Fprintf(&b, "%s: cpus [%s] shared [%s] memory [%s] shared [%s]\n", pod.Name, s.cpus, s.pool, amounts(s.memory), amounts(s.left))
		for c := range simnode.Containers(pod) {
			reported, ok := s.containers[c.Name]
			if !ok {
				continue // standard init containers are not reported
			}
			own := setOf(reported.CpuIds)
			fmt.Fprintf(&b, "  %s: cpus [%s] memory [%s]\n", c.Name, own, amounts(sizes(reported.Memory)))
			runsOn := n.CPU.GetCPUAffinity(string(pod.UID), c.Name)
			switch level := n.CPU.GetResourceIsolationLevel(pod, c); {
			case !own.IsEmpty():
				require.True(t, own.Equals(runsOn), "%s/%s is said to have %s and runs on %s", pod.Name, c.Name, own, runsOn)
			case level == cmqos.ResourceIsolationPod && !s.cpus.IsEmpty():
				require.True(t, s.pool.Equals(runsOn), "%s/%s shares %s and runs on %s", pod.Name, c.Name, s.pool, runsOn)
			}
			if n.Memory.GetResourceIsolationLevel(pod, c) == cmqos.ResourceIsolationPod && len(s.memory) > 0 {
				require.Equal(t, amounts(s.left), amounts(sizes(blocks(n.Memory.GetMemory(n.Logger, string(pod.UID), c.Name)))), "%s/%s", pod.Name, c.Name)
			}
		}
	}
	all, err := server.GetAllocatableResources(ctx, &podresourcesapi.AllocatableResourcesRequest{})
	require.NoError(t, err)
	fmt.Fprintf(&b, "allocatable: cpus [%s] memory [%s]\n", setOf(all.CpuIds), amounts(sizes(all.Memory)))
	return b.String()
}

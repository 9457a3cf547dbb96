// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

const nic = "example.com/nic"

// devices is what the kubelet's device manager knows. It outlives kubelets.
type devices struct {
	at []int
	// held are the devices of each container.
	held map[string][]int
}

func (d *devices) free() (free []int) {
	for i := range d.at {
		taken := false
		for _, held := range d.held {
			taken = taken || slices.Contains(held, i)
		}
		if !taken {
			free = append(free, i)
		}
	}
	return free
}

func asked(containers ...*v1.Container) (count int) {
	for _, c := range containers {
		q := c.Resources.Limits[nic]
		count += int(q.Value())
	}
	return count
}

// deviceProvider is the device manager as the topology manager of one make sees
// it: it allocates for containers only. H is that make's hint.
type deviceProvider[H any] struct {
	*devices
	hint     func(nodes []int, preferred bool) H
	affinity func(pod, container string) (nodes []int, anywhere bool)
}

func (p deviceProvider[H]) hints(count int) map[string][]H {
	if count == 0 {
		return nil
	}
	// Devices of one node or of all: enough for what is tested.
	hints := []H{}
	free := p.free()
	on := func(node int) (n int) {
		for _, i := range free {
			if p.at[i] == node {
				n++
			}
		}
		return n
	}
	all := slices.Clone(p.at)
	slices.Sort(all)
	all = slices.Compact(all)
	preferred := false
	for _, node := range all {
		if on(node) >= count {
			hints = append(hints, p.hint([]int{node}, true))
			preferred = true
		}
	}
	if len(all) > 1 && len(free) >= count {
		hints = append(hints, p.hint(all, !preferred))
	}
	return map[string][]H{nic: hints}
}

func (p deviceProvider[H]) GetTopologyHints(_ klog.Logger, _ *v1.Pod, c *v1.Container, _ lifecycle.Operation) map[string][]H {
	return p.hints(asked(c))
}

func (p deviceProvider[H]) GetPodTopologyHints(_ klog.Logger, pod *v1.Pod, _ lifecycle.Operation) map[string][]H {
	return p.hints(asked(containersOf(pod)...))
}

func (deviceProvider[H]) AllocatePod(klog.Logger, *v1.Pod, lifecycle.Operation) error { return nil }

func (p deviceProvider[H]) Allocate(_ context.Context, pod *v1.Pod, c *v1.Container, _ lifecycle.Operation) error {
	count, free := asked(c), p.free()
	if len(free) < count {
		return fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", nic, count, len(free))
	}
	nodes, anywhere := p.affinity(string(pod.UID), c.Name)
	near := func(i int) int {
		if anywhere || slices.Contains(nodes, p.at[i]) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(free, func(a, b int) int { return near(a) - near(b) })
	p.held[containerID(pod, c)] = free[:count]
	return nil
}

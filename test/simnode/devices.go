// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// device is one device of a resource, on a NUMA node.
type device struct {
	resource string
	node     int
}

// Devices is a provider as the kubelet's device manager is one, which cannot be
// used here since it is compiled against the kubelet's own topology manager. It
// has none of the optional interfaces and no pod-level support, allocates per
// container, prefers devices on the nodes of the affinity, and gives back what
// pods hold that are gone, at the next admission. It outlives the kubelet, as
// the device manager's checkpoint does.
type Devices struct {
	all    []device
	store  topologymanager.Store
	active func() []*v1.Pod
	// held are indices into all, by pod UID and container.
	held map[string]map[string][]int
	// Calls are what the topology manager asked for.
	Calls []string
}

var _ topologymanager.HintProvider = (*Devices)(nil)

// ParseDevices reads "example.com/gpu@2", one for each device.
func (n *Node) ParseDevices(texts []string) (*Devices, error) {
	d := &Devices{active: n.Active, held: map[string]map[string][]int{}}
	for _, text := range texts {
		name, at, ok := strings.Cut(strings.TrimSpace(text), "@")
		id, err := strconv.Atoi(at)
		if !ok || err != nil {
			return nil, fmt.Errorf("device %q: want name@node", text)
		}
		d.all = append(d.all, device{name, id})
	}
	return d, nil
}

// CloneFor is the same devices, held by the same pods, on another node.
func (d *Devices) CloneFor(n *Node) *Devices {
	if d == nil {
		return nil
	}
	clone := &Devices{all: d.all, active: n.Active, held: map[string]map[string][]int{}}
	maps.Copy(clone.held, d.held) // nobody changes what a pod has
	return clone
}

// request is what the containers ask for, by resource.
func (d *Devices) request(containers ...*v1.Container) map[string]int {
	request := map[string]int{}
	for _, c := range containers {
		for name, quantity := range c.Resources.Limits {
			if slices.ContainsFunc(d.all, func(dev device) bool { return dev.resource == string(name) }) {
				request[string(name)] += int(quantity.Value())
			}
		}
	}
	return request
}

func (d *Devices) free(resource string) (free []int) {
	taken := map[int]bool{}
	for _, pod := range d.held {
		for _, held := range pod {
			for _, i := range held {
				taken[i] = true
			}
		}
	}
	for i, dev := range d.all {
		if dev.resource == resource && !taken[i] {
			free = append(free, i)
		}
	}
	return free
}

func (d *Devices) collect() {
	active := map[string]bool{}
	for _, pod := range d.active() {
		active[string(pod.UID)] = true
	}
	maps.DeleteFunc(d.held, func(uid string, _ map[string][]int) bool { return !active[uid] })
}

func (d *Devices) GetTopologyHints(_ klog.Logger, pod *v1.Pod, c *v1.Container, _ lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	d.collect()
	return d.hints(d.request(c), d.held[string(pod.UID)][c.Name])
}

func (d *Devices) GetPodTopologyHints(_ klog.Logger, pod *v1.Pod, _ lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	d.collect()
	var containers []*v1.Container
	for c := range Containers(pod) {
		containers = append(containers, c)
	}
	var held []int
	for _, list := range d.held[string(pod.UID)] {
		held = append(held, list...)
	}
	return d.hints(d.request(containers...), held)
}

func (d *Devices) hints(request map[string]int, held []int) map[string][]topologymanager.TopologyHint {
	result := map[string][]topologymanager.TopologyHint{}
	for name, count := range request {
		available := d.free(name)
		if mine := slices.DeleteFunc(slices.Clone(held), func(i int) bool { return d.all[i].resource != name }); len(mine) > 0 {
			available = mine
		}
		var nodes []int
		for _, dev := range d.all {
			if dev.resource == name && !slices.Contains(nodes, dev.node) {
				nodes = append(nodes, dev.node)
			}
		}
		slices.Sort(nodes)
		narrowest := len(nodes)
		list := []topologymanager.TopologyHint{}
		bitmask.IterateBitMasks(nodes, func(mask bitmask.BitMask) {
			all, now := 0, 0
			for i, dev := range d.all {
				if dev.resource == name && mask.IsSet(dev.node) {
					all++
					if slices.Contains(available, i) {
						now++
					}
				}
			}
			if all >= count {
				narrowest = min(narrowest, mask.Count())
			}
			if now >= count {
				list = append(list, topologymanager.TopologyHint{NUMANodeAffinity: mask})
			}
		})
		for i := range list {
			list[i].Preferred = list[i].NUMANodeAffinity.Count() == narrowest
		}
		result[name] = list
	}
	return result
}

func (d *Devices) AllocatePod(_ klog.Logger, pod *v1.Pod, _ lifecycle.Operation) error {
	d.Calls = append(d.Calls, "allocate pod "+pod.Name)
	return nil
}

func (d *Devices) Allocate(_ context.Context, pod *v1.Pod, c *v1.Container, operation lifecycle.Operation) error {
	d.Calls = append(d.Calls, "allocate "+pod.Name+"/"+c.Name)
	uid := string(pod.UID)
	if operation != lifecycle.AddOperation || len(d.held[uid][c.Name]) > 0 {
		return nil
	}
	affinity := d.store.GetAffinity(klog.Logger{}, uid, c.Name).NUMANodeAffinity
	var taken []int
	for name, count := range d.request(c) {
		free := d.free(name)
		slices.SortStableFunc(free, func(a, b int) int {
			near := func(i int) int {
				if affinity == nil || affinity.IsSet(d.all[i].node) {
					return 0
				}
				return 1
			}
			return near(a) - near(b)
		})
		if len(free) < count {
			return fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", name, count, len(free))
		}
		taken = append(taken, free[:count]...)
	}
	if len(taken) > 0 {
		if d.held[uid] == nil {
			d.held[uid] = map[string][]int{}
		}
		d.held[uid][c.Name] = taken
	}
	return nil
}

// describe is what the container has: "example.com/gpu on node 2".
func (d *Devices) describe(uid, container string) string {
	if d == nil {
		return ""
	}
	var texts []string
	for _, i := range d.held[uid][container] {
		texts = append(texts, fmt.Sprintf(" %s on [%d]", d.all[i].resource, d.all[i].node))
	}
	slices.Sort(texts)
	return strings.Join(texts, "")
}

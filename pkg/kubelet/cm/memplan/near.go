// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Near tells the NUMA nodes of the CPUs of a pod's containers, by container
// name. Containers of which they are not known are absent.
type Near map[string]numa.Set

// part is what of a pod lies on the same nodes: the slice of a container, or
// the pool of those that share.
type part struct {
	containers []string
	nodes      numa.Set
	// farther are the pod's other nodes, the nearest to the CPUs first.
	farther []int
}

// placeNear moves the parts of a pod that was planned as a whole, and spans
// several nodes, to the nodes of their CPUs. All begin there. As long as one is
// not sure to get its size, beside what the others of the same phase and other
// pods may take, each of those is given one node more of the pod's; on all of
// them it is sure, because the pod's budget is. Wider parts only make it
// tighter for the others, so the order does not matter.
func (h Host) placeNear(record PodRecord, near Near) PodRecord {
	nodes := record.Nodes()
	parts := h.parts(record, near)
	if nodes.Size() < 2 || len(parts) == 0 {
		return record
	}
	ledgers := map[string]*ledger{}
	for _, b := range record.Pod {
		ledgers[b.Resource] = h.ledger(b.Resource, tenant{})
	}
	for {
		record = moved(record, parts)
		unsure := map[numa.Set]bool{}
		for resource, l := range ledgers {
			for _, c := range record.claims(resource, l.charges) {
				if c.nodes != nodes && !l.met(c) {
					unsure[c.nodes] = true
				}
			}
		}
		if len(unsure) == 0 {
			return record
		}
		for i, p := range parts {
			if unsure[p.nodes] && len(p.farther) > 0 {
				parts[i].nodes = p.nodes.Union(numa.SetOf(p.farther[0]))
				parts[i].farther = p.farther[1:]
			}
		}
	}
}

// parts are the pod's parts whose CPUs are known, on the nodes of these.
func (h Host) parts(record PodRecord, near Near) []part {
	nodes := record.Nodes()
	var parts []part
	var pool part
	for _, c := range record.asked.Containers {
		at := near[c.Name].Intersection(nodes).Intersection(h.capable(resourcesOf(record.Containers[c.Name])))
		switch {
		case c.Kind != podplan.StandardInit && len(record.asked.ExclusiveMemory(c)) == 0:
			pool.containers = append(pool.containers, c.Name)
			pool.nodes = pool.nodes.Union(at)
		case !at.IsEmpty():
			parts = append(parts, part{containers: []string{c.Name}, nodes: at})
		}
	}
	if !pool.nodes.IsEmpty() {
		parts = append(parts, pool)
	}
	for i, p := range parts {
		parts[i].farther = h.machine.byDistance(p.nodes, nodes.Difference(p.nodes))
	}
	return parts
}

func resourcesOf(blocks []Block) []string {
	var names []string
	for _, b := range blocks {
		names = append(names, b.Resource)
	}
	return names
}

// moved returns the record with the parts where they are now.
func moved(record PodRecord, parts []part) PodRecord {
	record.Containers = maps.Clone(record.Containers)
	for _, p := range parts {
		for _, name := range p.containers {
			blocks := slices.Clone(record.Containers[name])
			for i := range blocks {
				blocks[i].Nodes = p.nodes
			}
			record.Containers[name] = blocks
		}
	}
	return record
}

// byDistance sorts the nodes by their distance from the nearest of others.
func (m Machine) byDistance(from, nodes numa.Set) []int {
	list := nodes.List()
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(m.way(from, a), m.way(from, b)) })
	return list
}

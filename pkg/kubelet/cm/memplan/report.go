// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Report says what the container, or the pod when the name is empty, asks for
// and what each NUMA node has. It is empty when nothing is asked for or
// everything is recorded.
func (h Host) Report(pod podplan.Pod, name string) numa.Report {
	request := pod.PodMemory()
	record := h.records.Pod(pod.UID)
	settled := !record.IsEmpty()
	if name != "" {
		c, _ := pod.Container(name)
		request = pod.ExclusiveMemory(c)
		_, settled = record.Containers[name]
		settled = settled || record.Whole()
	}
	if len(request) == 0 || settled {
		return numa.Report{}
	}
	if name == "" && pod.Budget != nil {
		if _, err := carve(pod, nil); err != nil {
			return numa.Report{Cause: err.Error()}
		}
	}
	var report numa.Report
	for _, resource := range sortedNames(request) {
		d := numa.Demand{Resource: resource, Asked: request[resource]}
		for state := range h.Nodes() {
			capacity, _ := h.machine.Capacity(state.ID, resource)
			supply := numa.Supply{
				Node: state.ID, Free: h.free(state.ID, resource),
				Allocatable: capacity.Allocatable, Reserved: capacity.Reserved,
			}
			notes := h.uses(state.ID)
			if !h.machine.withCPUs.Contains(state.ID) {
				notes = append([]string{"no CPUs"}, notes...)
			}
			supply.Note = strings.Join(notes, ", ")
			d.Nodes = append(d.Nodes, supply)
		}
		report.Demands = append(report.Demands, d)
	}
	if last := len(report.Demands) - 1; h.crowded(pod, name, request) {
		report.Demands[last].Rule = promised
	}
	return report
}

// Usage says what can be allocated of each resource on each NUMA node, and what
// is free.
func (h Host) Usage() []numa.NodeUsage {
	var usage []numa.NodeUsage
	for state := range h.Nodes() {
		for _, r := range state.Resources {
			usage = append(usage, numa.NodeUsage{Node: state.ID, Resource: r.Name, Allocatable: r.Allocatable, Free: r.Free})
		}
	}
	return usage
}

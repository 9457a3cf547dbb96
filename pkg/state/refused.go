// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	format "github.com/podslice/podslice/pkg/state/memorymanager/state"
)

// refused says why upstream's kubelet of a release does not start on the files, as
// far as that is known without a machine and a configuration. Without them its
// machine is what the files tell of, its policies are those of the files, and its
// gate is off, as is the default of all releases.
func (f Files) refused(a Against) (list []Finding) {
	pods := a.gateOn() && a.Release != "1.35"
	gateText := "the gate " + gate + " off"
	if pods {
		gateText = "the gate " + gate + " on"
	}
	add := func(l *findings, manager string, err error) {
		if err != nil {
			l.add(Refused, "", "", "upstream's %s with %s does not start: %s manager: %v", a.Release, gateText, manager, err)
			list = append(list, l.list...)
		}
	}
	if f.CPU != nil {
		p, err := f.CPU.readBy(a.Release, pods)
		if err == nil {
			err = f.CPU.startOn(&p.content, a, pods)
		}
		add(f.CPU.findings(p), "CPU", err)
	}
	if f.Memory != nil {
		p, err := f.Memory.readBy(a.Release, pods)
		if err == nil {
			err = f.Memory.startOn(&p.content, a, pods)
		}
		add(f.Memory.findings(p), "memory", err)
	}
	return list
}

// readPart is the part that a release reads, if it accepts its checksum. Kubernetes 1.37 reads
// Data and never falls back when there is one; what is before it knows no Data.
func (f *file[T]) readPart(release string) (*part[T], error) {
	p := f.inline
	if release == "1.37" && f.data != nil {
		p = f.data
	}
	switch {
	case f.broken != nil:
		return p, f.broken
	case p.err != nil:
		return p, p.err
	case p.written != p.computed:
		return p, fmt.Errorf("the checksum is %d, that of the content %d", p.written, p.computed)
	}
	return p, nil
}

func (f *CPUFile) readBy(release string, pods bool) (*part[cpuContent], error) {
	p, err := f.readPart(release)
	switch {
	case err != nil:
		return p, err
	case f.Version == 1 && release == "1.37":
		return p, fmt.Errorf("it does not read version 1")
	case f.Version == 3 && (release == "1.35" || release == "1.36" && !pods):
		return p, fmt.Errorf("it does not read version 3")
	case len(p.content.bad) > 0:
		return p, fmt.Errorf("it cannot read %s", p.content.bad[0].text)
	}
	return p, nil
}

// startOn is what the static policy demands of its content when it starts.
func (f *CPUFile) startOn(c *cpuContent, a Against, pods bool) error {
	policy := a.cpuPolicy()
	if policy == "" {
		policy = c.policy
	}
	if policy != c.policy || policy == "" {
		return fmt.Errorf("its policy is %q, that of the file %q", policy, c.policy)
	}
	if policy != "static" {
		return nil
	}
	containers := cpuplan.Set{}
	for _, cpus := range c.byID {
		containers = containers.Union(cpus)
	}
	for _, pod := range c.pods() {
		r := c.records[pod]
		for _, name := range slices.Sorted(maps.Keys(r.Containers)) {
			if both := r.Containers[name].Intersection(c.shared); !both.IsEmpty() && !c.shared.IsEmpty() {
				return fmt.Errorf("pod %q, container %q has CPUs %s, and the node shared pool is %s", pod, name, r.Containers[name], c.shared)
			}
			containers = containers.Union(r.Containers[name])
		}
	}
	if c.shared.IsEmpty() {
		if !containers.IsEmpty() {
			return fmt.Errorf("the node shared pool is empty")
		}
		return nil
	}
	reserved, named := a.reserved()
	all, known := a.online()
	if !known {
		// The CPUs that any part of the file knows of.
		for _, p := range f.parts() {
			all = all.Union(p.content.shared).Union(p.content.assigned())
		}
	}
	switch {
	case named && a.strict():
		if both := c.shared.Intersection(reserved); !both.IsEmpty() {
			return fmt.Errorf("the node shared pool %s has strictly reserved CPUs: %s", c.shared, both)
		}
		all = all.Difference(reserved)
	case named && !reserved.IsSubsetOf(c.shared):
		return fmt.Errorf("the node shared pool %s lacks reserved CPUs: %s", c.shared, reserved.Difference(c.shared))
	case a.strict():
		return nil // which CPUs are reserved is not known
	}
	has := c.shared.Union(containers)
	if pods {
		has = has.Union(c.assigned())
	}
	if !has.Equals(all) {
		return fmt.Errorf("it wants to find CPUs %s on record, and finds %s", all, has)
	}
	return nil
}

func (f *MemoryFile) readBy(release string, pods bool) (*part[memoryContent], error) {
	p, err := f.readPart(release)
	switch {
	case err != nil:
		return p, err
	case f.Version == 2 && (release == "1.35" || release == "1.36" && !pods):
		return p, fmt.Errorf("it does not read version 2")
	}
	return p, nil
}

// startOn is what the static policy demands of its content when it starts: that
// the NUMA nodes have given out what the containers have, counted in its way.
func (f *MemoryFile) startOn(c *memoryContent, a Against, pods bool) error {
	policy := a.memoryPolicy()
	if policy == "" {
		policy = c.policy
	}
	if policy != c.policy || policy == "" {
		return fmt.Errorf("its policy is %q, that of the file %q", policy, c.policy)
	}
	if policy != "Static" {
		return nil
	}
	if len(c.machine) == 0 {
		if len(c.entries.Entries) > 0 {
			return fmt.Errorf("there are no NUMA nodes, and containers that have memory")
		}
		return nil
	}
	tables, known := a.memoryKnown()
	if !known {
		var err error
		if tables, err = capacities(c.machine); err != nil {
			return err
		}
	}
	count := machineState(memplan.NewHost(tables, memplan.Records{}))
	for _, pod := range slices.Sorted(maps.Keys(c.entries.Entries)) {
		if whole := c.entries.PodEntries[pod].MemoryBlocks; pods && len(whole) > 0 {
			if err := give(count, pod, whole); err != nil {
				return err
			}
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.entries.Entries[pod])) {
			if err := give(count, pod, c.entries.Entries[pod][name]); err != nil {
				return err
			}
		}
	}
	return sameCount(c.machine, count)
}

// give takes a pod's blocks from the nodes, from the first node that has some left
// on.
func give(nodes format.NUMANodeMap, pod string, blocks []format.Block) error {
	for _, b := range blocks {
		left := b.Size
		for _, id := range b.NUMAAffinity {
			node := nodes[id]
			if node == nil || node.MemoryMap[b.Type] == nil {
				return fmt.Errorf("pod %q has %s of %s on NUMA node %d, which has none", pod, numa.Bytes(b.Size), b.Type, id)
			}
			node.NumberOfAssignments++
			node.Cells = b.NUMAAffinity
			t := node.MemoryMap[b.Type]
			size := min(left, t.Free)
			t.Reserved, t.Free, left = t.Reserved+size, t.Free-size, left-size
		}
	}
	return nil
}

// sameCount fails, naming the first difference, for a file whose NUMA nodes are not
// as they were counted. Of nodes in a group the sums count.
func sameCount(got, want format.NUMANodeMap) error {
	if len(got) != len(want) {
		return fmt.Errorf("the file has %d NUMA nodes, the machine %d", len(got), len(want))
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		g, w := got[id], want[id]
		switch {
		case g == nil || w == nil:
			return fmt.Errorf("NUMA node %d is not in both the file and the machine", id)
		case g.NumberOfAssignments != w.NumberOfAssignments:
			return fmt.Errorf("NUMA node %d: the file counts %d blocks, the containers have %d", id, g.NumberOfAssignments, w.NumberOfAssignments)
		case !sameNodes(g.Cells, w.Cells):
			return fmt.Errorf("NUMA node %d: the file has it in the group %v, by the containers it is %v", id, g.Cells, w.Cells)
		case len(g.MemoryMap) != len(w.MemoryMap):
			return fmt.Errorf("NUMA node %d: the file has %d resources, the machine %d", id, len(g.MemoryMap), len(w.MemoryMap))
		}
		for _, name := range slices.Sorted(maps.Keys(g.MemoryMap)) {
			gt, wt := g.MemoryMap[name], w.MemoryMap[name]
			if gt == nil || wt == nil || gt.TotalMemSize != wt.TotalMemSize || gt.SystemReserved != wt.SystemReserved || gt.Allocatable != wt.Allocatable {
				return fmt.Errorf("NUMA node %d, %s: the file has other totals than the machine", id, name)
			}
			var gotUsed, wantUsed, gotFree, wantFree uint64
			for _, cell := range g.Cells {
				if got[cell] == nil || want[cell] == nil || got[cell].MemoryMap[name] == nil || want[cell].MemoryMap[name] == nil {
					return fmt.Errorf("NUMA node %d, %s: the group %v has a node without it", id, name, g.Cells)
				}
				gotUsed, wantUsed = gotUsed+got[cell].MemoryMap[name].Reserved, wantUsed+want[cell].MemoryMap[name].Reserved
				gotFree, wantFree = gotFree+got[cell].MemoryMap[name].Free, wantFree+want[cell].MemoryMap[name].Free
			}
			if gotUsed != wantUsed || gotFree != wantFree {
				return fmt.Errorf("NUMA nodes %v, %s: %s are reserved and %s free in the file, by the containers it is %s and %s",
					g.Cells, name, numa.Bytes(gotUsed), numa.Bytes(gotFree), numa.Bytes(wantUsed), numa.Bytes(wantFree))
			}
		}
	}
	return nil
}

func sameNodes(a, b []int) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

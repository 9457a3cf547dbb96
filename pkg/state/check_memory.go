// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	format "github.com/podslice/podslice/pkg/state/memorymanager/state"
)

func (f *MemoryFile) check(a Against) []Finding {
	list := f.integrity()
	used := f.used()
	if used == nil {
		return list
	}
	list = append(list, f.checkContent(used, a)...)
	return append(list, f.checkParts()...)
}

func (f *MemoryFile) checkContent(p *part[memoryContent], a Against) []Finding {
	l, c := f.findings(p), &p.content
	checkPolicy(l, c.policy, memoryPolicies)
	for _, bad := range c.bad {
		l.add(BadEntry, bad.pod, bad.container, "%s", bad.text)
	}
	for _, pod := range c.uids() {
		checkInside(l, pod, c.pods[pod])
	}
	if policy := a.memoryPolicy(); policy != "" && c.policy != "" && policy != c.policy {
		l.add(ConfigPolicy, "", "", "the policy is %q, in %s it is %q", c.policy, a.ConfigFile, policy)
	}
	if a.Config != nil && !a.gateOn() {
		for _, pod := range c.uids() {
			if c.pods[pod].Whole() {
				l.add(ConfigGate, pod, "", "has %s as a whole", blocksText(c.pods[pod].Pod))
			}
		}
	}
	c.checkMachine(l, a)
	return l.list
}

// checkInside holds the containers of a pod that was allocated as a whole against
// what the pod has.
func checkInside(l *findings, pod string, r memplan.PodRecord) {
	if !r.Whole() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.Containers)) {
		for _, b := range r.Containers[name] {
			i := slices.IndexFunc(r.Pod, func(o memplan.Block) bool { return o.Resource == b.Resource })
			switch {
			case i < 0:
				l.add(OutsidePod, pod, name, "has %s, of which its pod has nothing: %s", blockText(b), blocksText(r.Pod))
			case !b.Nodes.IsSubsetOf(r.Pod[i].Nodes) || b.Size > r.Pod[i].Size:
				l.add(OutsidePod, pod, name, "has %s, its pod has %s", blockText(b), blockText(r.Pod[i]))
			}
		}
	}
}

// checkMachine holds the tables of the NUMA nodes against themselves, against what
// the pods have, and against the machine. Under another policy than Static they
// mean nothing.
func (c *memoryContent) checkMachine(l *findings, a Against) {
	if c.policy != "Static" {
		return
	}
	if len(c.machine) == 0 {
		if len(c.pods) > 0 {
			l.add(MachineState, "", "", "there are no NUMA nodes, and pods that have memory")
		}
		return
	}
	tables, err := capacities(c.machine)
	if err != nil {
		l.add(BadTable, "", "", "%v", err)
		return
	}
	today := tables
	if now, known := a.memoryKnown(); known && a.memoryPolicy() == "Static" {
		compareTables(l, tables, now, a)
		today = now
	} else if now, err := a.bareMemory(); err == nil {
		compareTotals(l, tables, now)
		today = now
	}
	for _, pod := range c.uids() {
		for _, m := range []memplan.Machine{tables, today} {
			if err := m.Check(pod, c.pods[pod]); err != nil {
				l.add(MissingNode, pod, "", "%v", err)
				break
			}
		}
	}
	for n := range memplan.NewHost(today, c.records()).Nodes() {
		for _, r := range n.Resources {
			if r.Missing > 0 {
				l.add(Overcommitted, "", "", "NUMA node %d, %s: pods have %s more than the %s that can be allocated", n.ID, r.Name, numa.Bytes(r.Missing), numa.Bytes(r.Allocatable))
			}
		}
	}
	compareUse(l, c.machine, machineState(memplan.NewHost(tables, c.records())), c.records())
}

// compareUse holds what the nodes have given out against what follows from the
// pods. How a block on several nodes is spread over them is a convention, so nodes
// that such blocks tie together are looked at together.
func compareUse(l *findings, got, want format.NUMANodeMap, records memplan.Records) {
	for _, id := range slices.Sorted(maps.Keys(got)) {
		g, w := got[id], want[id]
		if g.NumberOfAssignments != w.NumberOfAssignments {
			l.add(MachineState, "", "", "NUMA node %d: the file counts %d blocks, the pods have %d", id, g.NumberOfAssignments, w.NumberOfAssignments)
		}
		for _, name := range slices.Sorted(maps.Keys(g.MemoryMap)) {
			t := g.MemoryMap[name]
			if t.Reserved+t.Free != t.Allocatable {
				l.add(MachineState, "", "", "NUMA node %d, %s: %s reserved and %s free are not the %s that can be allocated", id, name, numa.Bytes(t.Reserved), numa.Bytes(t.Free), numa.Bytes(t.Allocatable))
			}
		}
	}
	for _, group := range groups(got, records) {
		sums := map[v1.ResourceName][2]uint64{}
		for _, id := range group.List() {
			for name, t := range got[id].MemoryMap {
				s := sums[name]
				if w := want[id].MemoryMap[name]; w != nil {
					s[1] += w.Reserved
				}
				sums[name] = [2]uint64{s[0] + t.Reserved, s[1]}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(sums)) {
			if s := sums[name]; s[0] != s[1] {
				l.add(MachineState, "", "", "NUMA nodes %s, %s: %s are reserved in the file, the pods have %s", group, name, numa.Bytes(s[0]), numa.Bytes(s[1]))
			}
		}
	}
}

// groups is the machine's nodes, those together that blocks lie on together.
func groups(machine format.NUMANodeMap, records memplan.Records) []numa.Set {
	var list []numa.Set
	join := func(nodes numa.Set) {
		var apart []numa.Set
		for _, g := range list {
			if g.Intersection(nodes).IsEmpty() {
				apart = append(apart, g)
			} else {
				nodes = nodes.Union(g)
			}
		}
		list = append(apart, nodes)
	}
	var ids numa.Set
	for id := range machine {
		ids = ids.Union(numa.SetOf(id))
		join(numa.SetOf(id))
	}
	for _, pod := range records.All() {
		for b := range pod.Charges() {
			if nodes := b.Nodes.Intersection(ids); !nodes.IsEmpty() {
				join(nodes)
			}
		}
	}
	slices.SortFunc(list, func(a, b numa.Set) int { return a.List()[0] - b.List()[0] })
	return list
}

// compareTables holds the file's machine against that of today and its reservation.
func compareTables(l *findings, tables, now memplan.Machine, a Against) {
	for id := range tables.Nodes().Union(now.Nodes()).All() {
		if !tables.Nodes().Contains(id) || !now.Nodes().Contains(id) {
			missingNode(l, id, tables, now)
			continue
		}
		seen := map[string]bool{}
		for _, m := range []memplan.Machine{tables, now} {
			for name := range m.Resources(id) {
				if seen[name] {
					continue
				}
				seen[name] = true
				was, _ := tables.Capacity(id, name)
				is, _ := now.Capacity(id, name)
				if was.Total != is.Total {
					l.add(MachineChanged, "", "", "NUMA node %d, %s: the file has a total of %s, the machine %s", id, name, numa.Bytes(was.Total), less(is.Total, was.Total))
				}
				if was.Reserved != is.Reserved {
					l.add(ConfigReserved, "", "", "NUMA node %d, %s: the file reserves %s for the system, %s reserves %s", id, name, numa.Bytes(was.Reserved), a.ConfigFile, numa.Bytes(is.Reserved))
				}
			}
		}
	}
}

// compareTotals is compareTables without a reservation.
func compareTotals(l *findings, tables, now memplan.Machine) {
	for id := range tables.Nodes().Union(now.Nodes()).All() {
		if !tables.Nodes().Contains(id) || !now.Nodes().Contains(id) {
			missingNode(l, id, tables, now)
			continue
		}
		for name, was := range tables.Resources(id) {
			if is, _ := now.Capacity(id, name); was.Total != is.Total {
				l.add(MachineChanged, "", "", "NUMA node %d, %s: the file has a total of %s, the machine %s", id, name, numa.Bytes(was.Total), less(is.Total, was.Total))
			}
		}
	}
}

// less tells an amount beside another: their difference may be too small to be seen
// in amounts that are rounded.
func less(is, was uint64) string {
	if is > was {
		return numa.Bytes(is-was) + " more"
	}
	return numa.Bytes(was-is) + " less"
}

func missingNode(l *findings, id int, tables, now memplan.Machine) {
	l.add(MachineChanged, "", "", "the file has NUMA nodes %s, the machine %s: NUMA node %d is in one only", tables.Nodes(), now.Nodes(), id)
}

// checkParts holds the inline part against Data: pods that were allocated as a
// whole stand there as Data has their containers, or with as much of it as adds up
// to the pod.
func (f *MemoryFile) checkParts() []Finding {
	if !f.data.readable() || !f.inline.readable() {
		return nil
	}
	l, inline, data := f.findings(f.inline), &f.inline.content, &f.data.content
	if inline.policy != data.policy {
		l.add(PartsDiffer, "", "", "the policy is %q, in data %q", inline.policy, data.policy)
	}
	all := maps.Clone(inline.pods)
	maps.Copy(all, data.pods)
	for _, pod := range slices.Sorted(maps.Keys(all)) {
		i, d := inline.pods[pod], data.pods[pod]
		names := map[string][]memplan.Block{}
		maps.Copy(names, i.Containers)
		maps.Copy(names, d.Containers)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			ib, inInline := i.Containers[name]
			db, inData := d.Containers[name]
			if inInline != inData || !sameBlocks(ib, db, d) {
				l.add(PartsDiffer, pod, name, "has %s, in data %s", blocksText(ib), blocksText(db))
			}
		}
	}
	return l.list
}

// sameBlocks reports whether the inline blocks of a container can come from those
// in Data.
func sameBlocks(inline, data []memplan.Block, pod memplan.PodRecord) bool {
	if slices.Equal(inline, data) {
		return true
	}
	if !pod.Whole() {
		return false
	}
	for _, b := range inline {
		i := slices.IndexFunc(pod.Pod, func(o memplan.Block) bool { return o.Resource == b.Resource })
		if i < 0 || b.Nodes != pod.Pod[i].Nodes || b.Size > pod.Pod[i].Size {
			return false
		}
	}
	return true
}

func blockText(b memplan.Block) string {
	return fmt.Sprintf("%s %s on %s", b.Resource, numa.Bytes(b.Size), b.Nodes)
}

func blocksText(blocks []memplan.Block) string {
	if len(blocks) == 0 {
		return "nothing"
	}
	var list []string
	for _, b := range blocks {
		list = append(list, blockText(b))
	}
	return strings.Join(list, ", ")
}

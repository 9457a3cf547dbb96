// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	format "github.com/podslice/podslice/pkg/state/memorymanager/state"
)

func (f Files) repairMemory(a Against) (Repaired, error) {
	file := f.Memory
	r := &repairer{Repaired{Name: file.base(), Path: file.Path}}
	used := choose(r, &file.file)
	if used == nil {
		return r.Repaired, nil
	}
	c := used.content.clone()
	for _, bad := range c.bad {
		what := "the entry is dropped"
		if bad.container == "" {
			what = "what the pod has as a whole is dropped"
		}
		r.change(bad.pod, bad.container, "%s: %s", bad.text, what)
	}
	dropUnknown(r, file.unknown)
	repairPolicy(r, &c.policy, memoryPolicies, a.memoryPolicy(), map[bool]string{true: "Static", false: "None"}[len(c.machine) > 0])
	if used != file.data && file.data != nil {
		f.recallMemory(r, &c)
	}
	tables := repairTables(r, &c, a)
	today, err := a.bareMemory()
	if err != nil {
		today = tables
	}
	for _, pod := range c.uids() {
		rec := repairMemoryPod(r, pod, c.pods[pod])
		if left := today.Known(tables.Known(rec)); !left.Equal(rec) && !tables.Nodes().IsEmpty() && c.policy == "Static" {
			r.change(pod, "", "%v: the pod keeps what else it has", cmp.Or(tables.Check(pod, rec), today.Check(pod, rec)))
			rec = left
		}
		if err := cmp.Or(tables.Check(pod, rec), today.Check(pod, rec)); err != nil && !tables.Nodes().IsEmpty() && c.policy == "Static" {
			r.change(pod, "", "%v: the pod is dropped, and given other memory when it is admitted again", err)
			rec = memplan.PodRecord{}
		}
		if c.pods[pod] = rec; rec.IsEmpty() {
			delete(c.pods, pod)
		}
	}
	if tables.Nodes().IsEmpty() && len(c.pods) > 0 && c.policy == "Static" {
		r.change("", "", "there is nothing in it about NUMA nodes, and no machine and configuration were given: its pods are left out")
		c.pods = map[string]memplan.PodRecord{}
	}
	records := c.records()
	if c.policy == "Static" {
		l := file.findings(used)
		if err := checkUse(l, c.machine, tables, records); err != nil || len(l.list) > 0 {
			r.change("", "", "what the NUMA nodes have given out is computed from the pods")
		}
	}
	for _, d := range file.checkParts() {
		if used == file.data {
			r.change(d.Pod, d.Container, "the inline part %s: it is written anew from the data part", d.Text)
		}
	}
	return finish(r, file.Raw, func() ([]byte, error) { return encodeMemory(file.Version, c.policy, tables, records) })
}

// checkUse holds what a file's nodes have given out against the records.
func checkUse(l *findings, machine format.NUMANodeMap, tables memplan.Machine, records memplan.Records) error {
	if _, err := capacities(machine); err != nil {
		return err
	}
	for id := range tables.Nodes().All() {
		if machine[id] == nil {
			return fmt.Errorf("NUMA node %d is missing", id)
		}
	}
	for id := range machine {
		if !tables.Nodes().Contains(id) {
			return fmt.Errorf("NUMA node %d is gone", id)
		}
	}
	compareUse(l, machine, machineState(memplan.NewHost(tables, records)), records)
	return nil
}

// recallMemory finds out, when Data is lost, which pods were allocated as a whole.
// What a pod has is then what its containers have in the inline part, where they
// add up.
func (f Files) recallMemory(r *repairer, c *memoryContent) {
	if f.CPU == nil || f.CPU.used() == nil {
		return
	}
	for _, pod := range c.uids() {
		rec := c.pods[pod]
		if rec.Whole() || len(rec.Containers) == 0 || f.CPU.used().content.records[pod].Pod.IsEmpty() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(rec.Containers)) {
			for _, b := range rec.Containers[name] {
				i := slices.IndexFunc(rec.Pod, func(o memplan.Block) bool { return o.Resource == b.Resource })
				if i < 0 {
					rec.Pod = append(rec.Pod, b)
					continue
				}
				rec.Pod[i].Nodes, rec.Pod[i].Size = rec.Pod[i].Nodes.Union(b.Nodes), rec.Pod[i].Size+b.Size
			}
		}
		c.pods[pod] = rec
		r.change(pod, "", "%s has the pod as a whole: it has %s, what its containers have", f.CPU.base(), blocksText(rec.Pod))
	}
}

// repairMemoryPod makes one pod consistent in itself.
func repairMemoryPod(r *repairer, pod string, rec memplan.PodRecord) memplan.PodRecord {
	if fixed := rec.Repaired(); !fixed.Equal(rec) {
		r.change(pod, "", "containers are outside of the pod's NUMA nodes %s: the pod has %s, where they run", rec.Nodes(), fixed.Nodes())
		rec = fixed
	}
	if !rec.Whole() {
		return rec
	}
	containers := maps.Clone(rec.Containers)
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		var kept []memplan.Block
		for _, b := range containers[name] {
			i := slices.IndexFunc(rec.Pod, func(o memplan.Block) bool { return o.Resource == b.Resource })
			switch {
			case i < 0:
				r.change(pod, name, "%s is dropped: the pod has nothing of it", blockText(b))
				continue
			case b.Size > rec.Pod[i].Size:
				r.change(pod, name, "%s becomes the %s that the pod has", blockText(b), numa.Bytes(rec.Pod[i].Size))
				b.Size = rec.Pod[i].Size
			}
			kept = append(kept, b)
		}
		containers[name] = kept
	}
	rec.Containers = containers
	return rec
}

// repairTables is the machine that the repaired file tells of: that of today where
// it is known, else that of the file.
func repairTables(r *repairer, c *memoryContent, a Against) memplan.Machine {
	tables, err := capacities(c.machine)
	if now, known := a.memoryKnown(); known && c.policy == "Static" && a.memoryPolicy() == "Static" {
		l := &findings{}
		if err == nil {
			compareTables(l, tables, now, a)
		}
		if err != nil || len(l.list) > 0 {
			r.change("", "", "the NUMA nodes and what is reserved on them are those of the machine and of %s", a.ConfigFile)
		}
		return now
	}
	if err != nil && c.policy != "Static" {
		return bareTables(c.machine)
	}
	if err != nil {
		// Totals are what they are; a reservation that does not fit is forgotten.
		r.change("", "", "%v: what can be allocated is computed from the totals", err)
		tables = bareTables(c.machine)
	}
	return tables
}

// bareTables is what can be kept of tables that contradict each other.
func bareTables(nodes format.NUMANodeMap) memplan.Machine {
	var specs []memplan.NodeSpec
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		spec := memplan.NodeSpec{ID: id, HugePages: map[string]uint64{}, Reserved: map[string]uint64{}}
		if node := nodes[id]; node != nil {
			for name, t := range node.MemoryMap {
				switch {
				case t == nil:
				case name == memplan.Ordinary:
					spec.Memory = t.TotalMemSize
				default:
					spec.HugePages[string(name)] = t.TotalMemSize
				}
				if t != nil {
					spec.Reserved[string(name)] = t.SystemReserved
				}
			}
		}
		// Each node by itself: as much of it as makes sense.
		bare := spec
		bare.Reserved = nil
		empty := memplan.NodeSpec{ID: id}
		for _, try := range []memplan.NodeSpec{spec, bare, empty} {
			if _, err := memplan.NewMachine([]memplan.NodeSpec{try}); err == nil {
				specs = append(specs, try)
				break
			}
		}
	}
	m, _ := memplan.NewMachine(specs) // each was accepted, and IDs are keys of a map
	return m
}

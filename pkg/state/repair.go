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

// Change is one thing that a repair does, and why.
type Change struct {
	File      string `json:"file"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Text      string `json:"text"`
}

func (c Change) String() string {
	return Finding{File: c.File, Pod: c.Pod, Container: c.Container, Text: c.Text}.String()
}

// Repaired is one file after a repair.
type Repaired struct {
	// Name is the file's name, Path where it was read.
	Name, Path string
	// Content is nil for a file of which nothing could be saved: without it the
	// kubelet begins anew.
	Content []byte
	Changes []Change
}

// Repair corrects the files. It fails for a pod to keep that is not on record.
// keep are pods that win where two have the same CPUs;
// among others the first by UID does. A file with nothing wrong is returned as it
// is, without changes.
func (f Files) Repair(a Against, keep []string) ([]Repaired, error) {
	var list []Repaired
	for _, pod := range keep {
		if f.CPU == nil || f.CPU.used() == nil || f.CPU.used().content.records[pod].IsEmpty() {
			return nil, fmt.Errorf("pod %q, which is to keep its CPUs, has none on record", pod)
		}
	}
	if f.CPU != nil {
		r, err := f.repairCPU(a, keep)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	if f.Memory != nil {
		r, err := f.repairMemory(a)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// repairer collects changes.
type repairer struct{ Repaired }

func (r *repairer) change(pod, container, text string, args ...any) {
	r.Changes = append(r.Changes, Change{File: r.Name, Pod: pod, Container: container, Text: fmt.Sprintf(text, args...)})
}

// choose tells which part is gone on with.
func choose[T any](r *repairer, f *file[T]) *part[T] {
	used := f.used()
	switch {
	case used == nil:
		r.change("", "", "nothing in it can be read (%v): it is left out, and the kubelet begins anew; pods that run are given what fits when it starts", f.inline.err)
	case f.data != nil && used == f.inline && f.data.err != nil:
		r.change("", "", "the data part cannot be read (%v): the inline part is taken", f.data.err)
	case f.data != nil && used == f.inline:
		r.change("", "", "the data part has checksum %d, its content %d, and the inline part is sound: that is taken", f.data.written, f.data.computed)
	case !used.sound():
		r.change("", "", "no part has the checksum of its content; what can be read of the %s part is taken, with a new checksum", used.name)
	case f.broken != nil && f.data == nil:
		r.change("", "", "%v: it is cut off there", f.broken)
	case f.data != nil && !f.inline.readable():
		r.change("", "", "the inline part cannot be read (%v): it is written anew from the data part", f.inline.err)
	case f.data != nil && !f.inline.sound():
		r.change("", "", "the inline part has checksum %d, its content %d: it is written anew from the data part", f.inline.written, f.inline.computed)
	case f.broken != nil:
		r.change("", "", "%v: it is written anew from the data part", f.broken)
	}
	return used
}

func (f Files) repairCPU(a Against, keep []string) (Repaired, error) {
	file := f.CPU
	r := &repairer{Repaired{Name: file.base(), Path: file.Path}}
	used := choose(r, &file.file)
	if used == nil {
		return r.Repaired, nil
	}
	if file.Version == 1 {
		r.change("", "", "version 1 has container IDs in the place of pods: its entries cannot be taken over, and it is left out")
		return r.Repaired, nil
	}
	c := used.content.clone()
	for _, bad := range c.bad {
		what := "the entry is dropped"
		if bad.container == "" && bad.pod != "" {
			what = "the CPUs of the pod as a whole are dropped"
		} else if bad.pod == "" {
			what = "the node shared pool is computed"
		}
		r.change(bad.pod, bad.container, "%s: %s", bad.text, what)
	}
	if used != file.data && file.data != nil {
		f.recallPods(r, &c)
	}
	if c.policy == "" {
		c.policy = a.cpuPolicy()
		if c.policy == "" {
			c.policy = map[bool]string{true: "static", false: "none"}[len(c.records) > 0]
		}
		r.change("", "", "there is no policy: it is taken to be %q", c.policy)
	}
	for _, pod := range c.pods() {
		repairCPUPod(r, &c, pod)
	}
	dropCPUPods(r, &c, a, keep)
	for _, pod := range slices.Sorted(maps.Keys(c.baselines)) {
		kept := maps.Clone(c.baselines[pod])
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			_, there := c.records[pod].Containers[name]
			if _, err := parseCPUs(kept[name].Baseline); !there || err != nil {
				r.change(pod, name, "the baseline %q is dropped", kept[name].Baseline)
				delete(kept, name)
			}
		}
		if c.baselines[pod] = kept; len(kept) == 0 {
			delete(c.baselines, pod)
		}
	}
	f.CPU.repairShared(r, &c, a)
	for _, d := range file.checkParts() {
		if used == file.data {
			r.change(d.Pod, d.Container, "the inline part %s: it is written anew from the data part", d.Text)
		}
	}
	return finish(r, file.Raw, func() ([]byte, error) { return c.encode(file.Version) })
}

// recallPods finds out, when Data is lost, which pods were allocated as a whole:
// those that the other file has so. Their CPUs are those of their containers.
func (f Files) recallPods(r *repairer, c *cpuContent) {
	if f.Memory == nil || f.Memory.used() == nil {
		return
	}
	for _, pod := range c.pods() {
		rec := c.records[pod]
		if rec.Pod.IsEmpty() && len(rec.Containers) > 0 && f.Memory.used().content.pods[pod].Whole() {
			rec.Pod = cpuplan.Record{Containers: rec.Containers}.CPUs()
			c.records[pod] = rec
			r.change(pod, "", "%s has the pod as a whole: it has CPUs %s, those of its containers", f.Memory.base(), rec.Pod)
		}
	}
}

// repairCPUPod makes one pod consistent in itself.
func repairCPUPod(r *repairer, c *cpuContent, pod string) {
	rec := c.records[pod]
	containers := maps.Clone(rec.Containers)
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		if containers[name].IsEmpty() {
			r.change(pod, name, "the entry without CPUs is dropped: the container is given CPUs when it is admitted again")
			delete(containers, name)
		}
	}
	rec.Containers = containers
	if fixed := rec.Repaired(); !fixed.Equals(rec) {
		if fixed.Pod.IsEmpty() {
			r.change(pod, "", "its containers have more CPUs (%s) than the pod (%s): these count, container by container", fixed.CPUs(), rec.Pod)
		} else {
			r.change(pod, "", "containers are outside of the pod's CPUs %s: the pod has %s, where they run", rec.Pod, fixed.Pod)
		}
		rec = fixed
	}
	if rec.IsEmpty() {
		delete(c.records, pod)
	} else {
		c.records[pod] = rec
	}
}

// dropCPUPods drops pods that cannot keep what they have: their containers are
// given other CPUs when they are admitted again, which is when the kubelet starts.
func dropCPUPods(r *repairer, c *cpuContent, a Against, keep []string) {
	online, known := a.online()
	order := c.pods()
	slices.SortStableFunc(order, func(x, y string) int {
		return map[bool]int{true: 0, false: 1}[slices.Contains(keep, x)] - map[bool]int{true: 0, false: 1}[slices.Contains(keep, y)]
	})
	owner := map[int]string{}
	for _, pod := range order {
		held := c.records[pod].CPUs()
		if gone := held.Difference(online); known && !gone.IsEmpty() {
			r.change(pod, "", "CPUs %s: the machine lacks %s; the pod is dropped, and given other CPUs when it is admitted again", held, gone)
			delete(c.records, pod)
			continue
		}
		winner, contested := "", cpuplan.Set{}
		for cpu := range held.All() {
			if owner[cpu] != "" {
				winner, contested = owner[cpu], contested.Union(cpuplan.NewSet(cpu))
			}
		}
		if winner != "" {
			r.change(pod, "", "CPUs %s are pod %q's, too: this pod is dropped, and given other CPUs when it is admitted again", contested, winner)
			delete(c.records, pod)
			continue
		}
		for cpu := range held.All() {
			owner[cpu] = pod
		}
	}
}

// repairShared computes the node shared pool: all CPUs that are known of, without
// those of pods and, if they are reserved strictly, those.
func (f *CPUFile) repairShared(r *repairer, c *cpuContent, a Against) {
	all, known := a.online()
	if !known {
		for _, p := range f.parts() {
			all = all.Union(p.content.shared).Union(p.content.assigned())
		}
	}
	reserved, _ := a.reserved()
	if a.strict() {
		all = all.Difference(reserved)
		if known && reserved.IsEmpty() {
			all = all.Intersection(c.shared.Union(c.assigned()))
		}
	}
	if c.policy != "static" {
		all = c.shared // the policy none has no pool
		if known {
			all = all.Intersection(first(a.online()))
		}
	}
	shared := all.Difference(c.assigned())
	if c.policy == "static" && shared.IsEmpty() && len(c.records) > 0 {
		shared = reserved
	}
	if !shared.Equals(c.shared) {
		r.change("", "", "the node shared pool is %s, it was %s", orNothing(shared, true), orNothing(c.shared, true))
		c.shared = shared
	}
}

func first[T any](v T, _ bool) T { return v }

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
	if c.policy == "" {
		c.policy = a.memoryPolicy()
		if c.policy == "" {
			c.policy = map[bool]string{true: "Static", false: "None"}[len(c.machine) > 0]
		}
		r.change("", "", "there is no policy: it is taken to be %q", c.policy)
	}
	if used != file.data && file.data != nil {
		f.recallMemory(r, &c)
	}
	tables := repairTables(r, &c, a)
	for _, pod := range c.uids() {
		rec := repairMemoryPod(r, pod, c.pods[pod])
		if err := tables.Check(pod, rec); err != nil && !tables.Nodes().IsEmpty() {
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

// finish writes the file if anything has changed.
func finish(r *repairer, raw []byte, encode func() ([]byte, error)) (Repaired, error) {
	r.Content = raw
	if len(r.Changes) == 0 {
		return r.Repaired, nil
	}
	text, err := encode()
	if err != nil {
		return Repaired{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	r.Content = text
	return r.Repaired, nil
}

// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/state/checksum"
	format "github.com/podslice/podslice/pkg/state/cpumanager/state"
)

// CPUFile is the CPU manager's file.
type CPUFile struct{ file[cpuContent] }

// cpuContent is the content of one part.
type cpuContent struct {
	policy    string
	shared    cpuplan.Set
	records   map[string]cpuplan.Record
	baselines map[string]map[string]format.ContainerCPUs
	// byID is the CPUs of containers that are known by their IDs alone, as in
	// version 1.
	byID map[string]cpuplan.Set
	// bad is what could not be read of it.
	bad []badEntry
}

type badEntry struct{ pod, container, text string }

func readCPU(path string, raw []byte) *CPUFile {
	f := &CPUFile{file[cpuContent]{Path: path, Raw: raw}}
	f.inline = &part[cpuContent]{name: "inline"}
	members, whole := fields(raw)
	f.broken = whole
	if p, data, ok := readData[format.Data](members, whole); ok {
		f.Version = 4
		f.data = &part[cpuContent]{name: p.name, written: p.written, computed: p.computed, err: p.err, content: cpuContentOf(data)}
	}
	if members["checksum"] == nil && whole != nil {
		f.inline.err = whole
		return f
	}
	var v3 format.V3
	if f.inline.err = decode(members, &v3); f.inline.err != nil {
		var v1 format.V1
		if f.data == nil && decode(members, &v1) == nil {
			f.Version, f.inline.err = 1, nil
			f.inline.written, f.inline.computed = v1.Checksum, v1.Sum1()
			if v1.Checksum == 0 {
				f.inline.computed = 0
			}
			f.inline.content = cpuContentOf(format.Data{PolicyName: v1.PolicyName, DefaultCPUSet: v1.DefaultCPUSet})
			f.inline.content.readIDs(v1.Entries)
			f.checkKnown(&v1, nil)
		}
		return f
	}
	if members["defaultCpuSet"] == nil && members["policyName"] == nil {
		f.inline.err = errors.New("the file has neither a policyName nor a defaultCpuSet")
		return f
	}
	data := format.Data{PolicyName: v3.PolicyName, DefaultCPUSet: v3.DefaultCPUSet, Entries: v3.Entries}
	f.inline.written, f.inline.computed = v3.Checksum, data.Sum2()
	if f.data == nil {
		f.Version = 2
		// Version 3 without pods has the fields of version 2, and another sum.
		with := data
		with.PodEntries = v3.PodEntries
		if pods, err := podSets(with.PodEntries); err == nil {
			if sum := with.Sum3(pods); sum == v3.Checksum || v3.PodEntries != nil {
				f.Version, f.inline.computed, data = 3, sum, with
			}
		} else {
			f.Version, data = 3, with
		}
	}
	// So does version 1 without containers.
	if v1 := (format.V1{PolicyName: data.PolicyName, DefaultCPUSet: data.DefaultCPUSet}).Sum1(); f.Version == 2 && len(data.Entries) == 0 && v1 == v3.Checksum {
		f.Version, f.inline.computed = 1, v1
	}
	if f.inline.written == 0 && f.Version != 3 {
		f.inline.computed = 0 // a checksum of 0 is one that was never taken
	}
	f.inline.content = cpuContentOf(data)
	f.checkKnown(&struct {
		format.V3
		Data         string            `json:"data"`
		DataChecksum checksum.Checksum `json:"dataChecksum"`
	}{}, &format.Data{})
	return f
}

func podSets(pods map[string]format.PodEntryText) (map[string]cpuset.CPUSet, error) {
	sets := make(map[string]cpuset.CPUSet, len(pods))
	for uid, entry := range pods {
		set, err := parseCPUs(entry.CPUSet)
		if err != nil {
			return nil, err
		}
		sets[uid] = cpuset.New(set.List()...)
	}
	return sets, nil
}

func cpuContentOf(data format.Data) cpuContent {
	c := cpuContent{policy: data.PolicyName, records: map[string]cpuplan.Record{}, baselines: data.Baselines}
	read := func(pod, container, text string) cpuplan.Set {
		set, err := parseCPUs(text)
		if err != nil {
			c.bad = append(c.bad, badEntry{pod, container, err.Error()})
		}
		return set
	}
	c.shared = read("", "", data.DefaultCPUSet)
	for _, pod := range slices.Sorted(maps.Keys(data.Entries)) {
		r := cpuplan.Record{Containers: map[string]cpuplan.Set{}}
		for _, name := range slices.Sorted(maps.Keys(data.Entries[pod])) {
			before := len(c.bad)
			if set := read(pod, name, data.Entries[pod][name]); len(c.bad) == before {
				r.Containers[name] = set
			}
		}
		c.records[pod] = r
	}
	for _, pod := range slices.Sorted(maps.Keys(data.PodEntries)) {
		r := c.records[pod]
		r.Pod = read(pod, "", data.PodEntries[pod].CPUSet)
		c.records[pod] = r
	}
	return c
}

// parseCPUs reads the kernel's list format within the range of IDs that the CPU
// manager supports.
func parseCPUs(text string) (cpuplan.Set, error) {
	var ids []int
	if text == "" {
		return cpuplan.Set{}, nil
	}
	for _, one := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(one, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from > to || from < 0 {
			return cpuplan.Set{}, fmt.Errorf("%q is no list of CPUs", text)
		}
		if to >= cpuplan.MaxCPUs {
			return cpuplan.Set{}, fmt.Errorf("%q has CPUs outside of the supported range 0-%d", text, cpuplan.MaxCPUs-1)
		}
		for id := from; id <= to; id++ {
			ids = append(ids, id)
		}
		if len(ids) > 2*cpuplan.MaxCPUs {
			return cpuplan.Set{}, fmt.Errorf("the list of CPUs has too many ranges that overlap")
		}
	}
	return cpuplan.NewSet(ids...), nil
}

// pods lists the pods in order.
func (c *cpuContent) pods() []string { return slices.Sorted(maps.Keys(c.records)) }

// assigned is everything that containers and pods have.
func (c *cpuContent) assigned() (all cpuplan.Set) {
	for _, r := range c.records {
		all = all.Union(r.CPUs())
	}
	for _, cpus := range c.byID {
		all = all.Union(cpus)
	}
	return all
}

// gives reports whether anybody has an entry.
func (c *cpuContent) gives() bool { return len(c.records)+len(c.byID) > 0 }

// readIDs reads the entries of version 1.
func (c *cpuContent) readIDs(entries map[string]string) {
	c.byID = map[string]cpuplan.Set{}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		cpus, err := parseCPUs(entries[id])
		if err != nil {
			c.bad = append(c.bad, badEntry{"", id, err.Error()})
			continue
		}
		c.byID[id] = cpus
	}
}

// leftover is the CPUs of pods that none of their containers has. For kubelets
// that know no pods they are in the shared pool.
func (c *cpuContent) leftover() (left cpuplan.Set) {
	for _, r := range c.records {
		left = left.Union(r.Pod.Difference(cpuplan.Record{Containers: r.Containers}.CPUs()))
	}
	return left
}

// clone is a copy whose records can be changed.
func (c cpuContent) clone() cpuContent {
	c.records, c.baselines = maps.Clone(c.records), maps.Clone(c.baselines)
	return c
}

// encode writes the content in a version of the file.
func (c *cpuContent) encode(version int) ([]byte, error) {
	data := format.Data{PolicyName: c.policy, DefaultCPUSet: c.shared.String(), Entries: map[string]map[string]string{}, Baselines: c.baselines}
	for pod, r := range c.records {
		if len(r.Containers) > 0 {
			data.Entries[pod] = map[string]string{}
		}
		for name, cpus := range r.Containers {
			data.Entries[pod][name] = cpus.String()
		}
		if !r.Pod.IsEmpty() {
			if data.PodEntries == nil {
				data.PodEntries = map[string]format.PodEntryText{}
			}
			data.PodEntries[pod] = format.PodEntryText{CPUSet: r.Pod.String()}
		}
	}
	switch version {
	case 1:
		v1 := format.V1{PolicyName: data.PolicyName, DefaultCPUSet: data.DefaultCPUSet, Entries: map[string]string{}}
		for id, cpus := range c.byID {
			v1.Entries[id] = cpus.String()
		}
		v1.Checksum = v1.Sum1()
		return json.Marshal(v1)
	case 2:
		return json.Marshal(format.Inline{PolicyName: data.PolicyName, DefaultCPUSet: data.DefaultCPUSet, Entries: data.Entries, Checksum: data.Sum2()})
	case 3:
		pods, err := podSets(data.PodEntries)
		if err != nil {
			return nil, err
		}
		return json.Marshal(format.V3{PolicyName: data.PolicyName, DefaultCPUSet: data.DefaultCPUSet, Entries: data.Entries, PodEntries: data.PodEntries, Checksum: data.Sum3(pods)})
	}
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	inline := format.Data{PolicyName: data.PolicyName, DefaultCPUSet: c.shared.Union(c.leftover()).String(), Entries: data.Entries}
	return json.Marshal(format.V4{
		Inline: format.Inline{PolicyName: inline.PolicyName, DefaultCPUSet: inline.DefaultCPUSet, Entries: inline.Entries, Checksum: inline.Sum2()},
		Data:   string(text), DataChecksum: dataSum(string(text)),
	})
}

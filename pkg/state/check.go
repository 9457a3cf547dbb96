// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// Check lists everything that is wrong with the files, and what is to be known
// about them.
func (f Files) Check(a Against) []Finding {
	var list []Finding
	if f.CPU != nil {
		list = append(list, f.CPU.check(a)...)
	}
	if f.Memory != nil {
		list = append(list, f.Memory.check(a)...)
	}
	list = append(list, f.checkBoth()...)
	if a.Release != "" {
		list = append(list, f.refused(a)...)
	}
	return list
}

// checkBoth holds the files against each other. A pod that has memory and no CPUs
// is as it should be when it asks for no whole CPUs.
func (f Files) checkBoth() []Finding {
	if f.CPU == nil || f.Memory == nil {
		return nil
	}
	cpu, memory := f.CPU.used(), f.Memory.used()
	if cpu == nil || memory == nil || cpu.content.policy != "static" || memory.content.policy != "Static" {
		return nil
	}
	l := &findings{file: f.CPU.base()}
	for _, pod := range cpu.content.pods() {
		switch held, r := cpu.content.records[pod], memory.content.pods[pod]; {
		case r.IsEmpty():
			l.add(OneFileOnly, pod, "", "has CPUs %s, and nothing in %s", held.CPUs(), f.Memory.base())
		case !held.Pod.IsEmpty() && !r.Whole():
			l.add(OneFileOnly, pod, "", "has CPUs %s as a whole, and in %s only what containers have", held.Pod, f.Memory.base())
		}
	}
	return l.list
}

func (f *CPUFile) check(a Against) []Finding {
	list := f.integrity()
	used := f.used()
	if f.Version == 1 {
		l := f.findings(used)
		l.add(OldVersion, "", "", "it is of version 1")
		list = append(list, l.list...)
	}
	if used == nil {
		return list
	}
	list = append(list, f.checkContent(used, a)...)
	return append(list, f.checkParts()...)
}

// cpuPolicies and memoryPolicies are all that there are.
var cpuPolicies, memoryPolicies = []string{"none", "static"}, []string{"None", "Static", "BestEffort"}

func checkPolicy(l *findings, policy string, known []string) {
	if policy == "" {
		l.add(NoPolicy, "", "", "there is no policyName")
	} else if !slices.Contains(known, policy) {
		l.add(NoPolicy, "", "", "the policyName is %q: want one of %q", policy, known)
	}
}

// checkContent holds one part against the rules.
func (f *CPUFile) checkContent(p *part[cpuContent], a Against) []Finding {
	l, c := f.findings(p), &p.content
	checkPolicy(l, c.policy, cpuPolicies)
	for _, bad := range c.bad {
		l.add(BadEntry, bad.pod, bad.container, "%s", bad.text)
	}
	online, known := a.online()
	owners := owners{}
	for _, pod := range c.pods() {
		r := c.records[pod]
		for _, name := range slices.Sorted(maps.Keys(r.Containers)) {
			cpus := r.Containers[name]
			if cpus.IsEmpty() {
				l.add(NoCPUs, pod, name, "has an entry without CPUs")
			}
			if outside := cpus.Difference(r.Pod); !r.Pod.IsEmpty() && !outside.IsEmpty() {
				l.add(OutsidePod, pod, name, "has CPUs %s, its pod %s: %s are outside", cpus, r.Pod, outside)
			}
		}
		held := r.CPUs()
		if both := held.Intersection(c.shared); !both.IsEmpty() {
			l.add(SharedAssigned, pod, "", "has CPUs %s, and the node shared pool is %s: both have %s", held, c.shared, both)
		}
		for _, other := range slices.Sorted(maps.Keys(owners.take(pod, held))) {
			o := c.records[other].CPUs()
			l.add(Overlap, pod, "", "has CPUs %s, and pod %q has %s: both have %s", held, other, o, held.Intersection(o))
		}
		if gone := held.Difference(online); known && !gone.IsEmpty() {
			l.add(MissingCPUs, pod, "", "has CPUs %s, and the machine %s: it lacks %s", held, online, gone)
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(c.baselines)) {
		for _, name := range slices.Sorted(maps.Keys(c.baselines[pod])) {
			if _, ok := c.records[pod].Containers[name]; !ok {
				l.add(StrayBaseline, pod, name, "has the baseline %s and no CPUs", c.baselines[pod][name].Baseline)
			} else if _, err := parseCPUs(c.baselines[pod][name].Baseline); err != nil {
				l.add(BadEntry, pod, name, "baseline: %v", err)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.byID)) {
		if both := c.byID[id].Intersection(c.shared); !both.IsEmpty() {
			l.add(SharedAssigned, "", id, "has CPUs %s, and the node shared pool is %s: both have %s", c.byID[id], c.shared, both)
		}
	}
	if c.policy == "static" && c.shared.IsEmpty() && c.gives() {
		l.add(NoCPUs, "", "", "the node shared pool is empty")
	}
	f.checkAgainst(l, c, a)
	return l.list
}

// owners is the pod that each CPU belongs to.
type owners map[int]string

// take makes the CPUs without an owner the pod's. The answer is the CPUs of others.
func (o owners) take(pod string, cpus cpuplan.Set) map[string][]int {
	others := map[string][]int{}
	for cpu := range cpus.All() {
		if other, ok := o[cpu]; ok {
			others[other] = append(others[other], cpu)
		} else {
			o[cpu] = pod
		}
	}
	return others
}

// checkAgainst is what a machine and a configuration add.
func (f *CPUFile) checkAgainst(l *findings, c *cpuContent, a Against) {
	if policy := a.cpuPolicy(); policy != "" && c.policy != "" && policy != c.policy {
		l.add(ConfigPolicy, "", "", "the policy is %q, in %s it is %q", c.policy, a.ConfigFile, policy)
		if policy == "none" && !c.assigned().IsEmpty() {
			l.list[len(l.list)-1].Severity = Harm
		}
	}
	if a.Config != nil && !a.gateOn() {
		for _, pod := range c.pods() {
			if !c.records[pod].Pod.IsEmpty() {
				l.add(ConfigGate, pod, "", "has CPUs %s as a whole", c.records[pod].Pod)
			}
		}
	}
	if c.policy != "static" || a.cpuPolicy() != "" && a.cpuPolicy() != "static" {
		return
	}
	reserved, named := a.reserved()
	online, known := a.online()
	universe := online
	switch {
	case named && a.strict():
		if both := c.shared.Intersection(reserved); !both.IsEmpty() {
			l.add(ConfigReserved, "", "", "the node shared pool is %s, and %s strictly reserves %s: both have %s", c.shared, a.ConfigFile, reserved, both)
		}
		universe = online.Difference(reserved)
	case named:
		if lacks := reserved.Difference(c.shared); !lacks.IsEmpty() {
			l.add(ConfigReserved, "", "", "the node shared pool is %s, and %s reserves %s: it lacks %s", c.shared, a.ConfigFile, reserved, lacks)
		}
	}
	if !known {
		return
	}
	if gone := c.shared.Difference(online); !gone.IsEmpty() {
		l.add(MissingCPUs, "", "", "the node shared pool is %s, and the machine has %s: it lacks %s", c.shared, online, gone)
	}
	lost := universe.Difference(c.shared).Difference(c.assigned())
	// A strict reservation whose CPUs are not named keeps some out of the pool.
	if !lost.IsEmpty() && !c.shared.IsEmpty() && (named || !a.strict()) {
		l.add(LostCPUs, "", "", "%s of the machine's %s are nobody's", lost, universe)
	}
}

// checkParts holds the inline part against Data. It has what Data has, or what
// remains of that without pods.
func (f *CPUFile) checkParts() []Finding {
	if !f.data.readable() || !f.inline.readable() {
		return nil
	}
	l, inline, data := f.findings(f.inline), &f.inline.content, &f.data.content
	if inline.policy != data.policy {
		l.add(PartsDiffer, "", "", "the policy is %q, in data %q", inline.policy, data.policy)
	}
	if with := data.shared.Union(data.leftover()); !inline.shared.Equals(data.shared) && !inline.shared.Equals(with) {
		l.add(PartsDiffer, "", "", "the node shared pool is %s, in data %s", inline.shared, data.shared)
	}
	all := maps.Clone(inline.records)
	maps.Copy(all, data.records)
	for _, pod := range slices.Sorted(maps.Keys(all)) {
		names := maps.Clone(inline.records[pod].Containers)
		if names == nil {
			names = data.records[pod].Containers
		} else {
			maps.Copy(names, data.records[pod].Containers)
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			i, inInline := inline.records[pod].Containers[name]
			d, inData := data.records[pod].Containers[name]
			if inInline != inData || !i.Equals(d) {
				l.add(PartsDiffer, pod, name, "has CPUs %s, in data %s", orNothing(i, inInline), orNothing(d, inData))
			}
		}
	}
	return l.list
}

func orNothing(s interface{ String() string }, there bool) string {
	if !there {
		return "nothing"
	}
	if text := s.String(); text != "" {
		return text
	}
	return "none"
}

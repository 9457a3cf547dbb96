// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// ErrNoPool says that no CPU is known that the node shared pool could have.
var ErrNoPool = errors.New("pods have all CPUs that are known of, so that the node shared pool would be empty; a machine, or a configuration with reservedSystemCPUs, tells of more")

// Change is one thing that a repair does, and why.
type Change struct {
	File      string `json:"file"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Text      string `json:"text"`
}

// String is the change in one line.
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

// Repair corrects the files. It fails for a pod to keep that is not on record, and
// with ErrNoPool.
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
		r.change("", "", "no part has the checksum of its content; what can be read of %s is taken, with a new checksum", map[bool]string{true: "the " + used.name + " part", false: "it"}[f.data != nil])
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
	c := used.content.clone()
	for _, bad := range c.bad {
		what := "the entry is dropped"
		if bad.container == "" && bad.pod != "" {
			what = "the CPUs of the pod as a whole are dropped"
		} else if bad.container == "" {
			what = "the node shared pool is computed"
		}
		r.change(bad.pod, bad.container, "%s: %s", bad.text, what)
	}
	if used != file.data && file.data != nil {
		f.recallPods(r, &c)
	}
	dropUnknown(r, file.unknown)
	repairPolicy(r, &c.policy, cpuPolicies, a.cpuPolicy(), map[bool]string{true: "static", false: "none"}[c.gives()])
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
	if err := f.CPU.repairShared(r, &c, a); err != nil {
		return Repaired{}, err
	}
	for _, d := range file.checkParts() {
		if used == file.data {
			r.change(d.Pod, d.Container, "the inline part %s: it is written anew from the data part", d.Text)
		}
	}
	return finish(r, file.Raw, func() ([]byte, error) { return c.encode(file.Version) })
}

// dropUnknown tells that a file of a newer kubelet is written in the version that
// is known.
func dropUnknown(r *repairer, unknown error) {
	if unknown != nil {
		r.change("", "", "%v: it is written without what is not known", unknown)
	}
}

// repairPolicy makes a policy that there is not the configured one or, if that is
// not known, the one that the content looks like.
func repairPolicy(r *repairer, policy *string, known []string, configured, likely string) {
	if slices.Contains(known, *policy) {
		return
	}
	was := *policy
	if *policy = configured; !slices.Contains(known, configured) {
		*policy = likely
	}
	r.change("", "", "the policy is %q: it is taken to be %q", was, *policy)
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
	var taken cpuplan.Set
	owners := owners{}
	for _, pod := range order {
		if gone := c.records[pod].CPUs().Difference(online); known && !gone.IsEmpty() {
			r.change(pod, "", "CPUs %s: the machine lacks %s; the pod keeps the others", c.records[pod].CPUs(), gone)
			if c.records[pod] = c.records[pod].Only(online); c.records[pod].IsEmpty() {
				delete(c.records, pod)
				continue
			}
		}
		held := c.records[pod].CPUs()
		if held.Overlaps(taken) {
			for _, winner := range slices.Sorted(maps.Keys(owners.take(pod, held.Intersection(taken)))) {
				r.change(pod, "", "CPUs %s are pod %q's, too: this pod is dropped, and given other CPUs when it is admitted again", held.Intersection(c.records[winner].CPUs()), winner)
			}
			delete(c.records, pod)
			continue
		}
		owners.take(pod, held)
		taken = taken.Union(held)
	}
}

// repairShared computes the node shared pool: all CPUs that are known of, without
// those of pods and, if they are reserved strictly, those.
func (f *CPUFile) repairShared(r *repairer, c *cpuContent, a Against) error {
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
	if c.policy == "static" && shared.IsEmpty() && c.gives() {
		if shared = reserved; shared.IsEmpty() {
			return fmt.Errorf("%s: %w", f.Path, ErrNoPool)
		}
	}
	if !shared.Equals(c.shared) {
		r.change("", "", "the node shared pool is %s, it was %s", orNothing(shared, true), orNothing(c.shared, true))
		c.shared = shared
	}
	return nil
}

func first[T any](v T, _ bool) T { return v }

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

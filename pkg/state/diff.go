// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Difference is one thing that is not the same in two sets of files. Before or
// After is empty where there is nothing.
type Difference struct {
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	What      string `json:"what"`
	Before    string `json:"before,omitempty"`
	After     string `json:"after,omitempty"`
}

// String is the difference in one line.
func (d Difference) String() string {
	var b strings.Builder
	if d.Pod != "" {
		fmt.Fprintf(&b, "pod %q, ", d.Pod)
	}
	if d.Container != "" {
		fmt.Fprintf(&b, "container %q, ", d.Container)
	}
	or := func(text string) string {
		if text == "" {
			return "nothing"
		}
		return text
	}
	return fmt.Sprintf("%s%s: %s -> %s", b.String(), d.What, or(d.Before), or(d.After))
}

// Diff tells what is different in after, of what the files say: of the part that
// counts, not of how it is written.
func Diff(before, after View) []Difference {
	a, b := before.facts(), after.facts()
	all := maps.Clone(a)
	maps.Copy(all, b)
	list := []Difference{}
	for _, k := range slices.SortedFunc(maps.Keys(all), key.compare) {
		if a[k] != b[k] {
			list = append(list, Difference{Pod: k.pod, Container: k.container, What: k.what, Before: a[k], After: b[k]})
		}
	}
	return list
}

type key struct{ pod, container, what string }

func (k key) compare(o key) int {
	return slices.Compare([]string{k.pod, k.container, k.what}, []string{o.pod, o.container, o.what})
}

// facts is everything that a view says, by what it is about.
func (v View) facts() map[key]string {
	facts := map[key]string{}
	set := func(pod, container, what, value string) {
		if value != "" {
			facts[key{pod, container, what}] = value
		}
	}
	if v.CPU != nil {
		set("", "", "CPU manager policy", v.CPU.Policy)
		set("", "", "CPU manager file version", fmt.Sprint(v.CPU.Version))
		set("", "", "node shared pool", v.CPU.Shared)
		for id, cpus := range v.CPU.ByID {
			set("", id, "CPUs", cpus)
		}
	}
	if v.Memory != nil {
		set("", "", "memory manager policy", v.Memory.Policy)
		set("", "", "memory manager file version", fmt.Sprint(v.Memory.Version))
		for _, n := range v.Memory.Nodes {
			for _, r := range n.Resources {
				set("", "", fmt.Sprintf("NUMA node %d, %s", n.ID, r.Name), fmt.Sprintf("%s free of %s", numa.Bytes(r.Free), numa.Bytes(r.Allocatable)))
			}
		}
	}
	memory := func(pod, container string, blocks []BlockView) {
		for _, b := range blocks {
			set(pod, container, b.Resource, b.String())
		}
	}
	for _, p := range v.Pods {
		set(p.UID, "", "CPUs", p.CPUs)
		memory(p.UID, "", p.Memory)
		for _, c := range p.Containers {
			set(p.UID, c.Name, "CPUs", c.CPUs)
			memory(p.UID, c.Name, c.Memory)
		}
	}
	return facts
}

// String is "8Gi on 0-1".
func (b BlockView) String() string {
	nodes, _ := numa.NewSet(b.Nodes...) // it comes from a set
	return fmt.Sprintf("%s on %s", numa.Bytes(b.Bytes), nodes)
}

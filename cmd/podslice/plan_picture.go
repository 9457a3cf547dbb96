// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/machine/picture"
	"github.com/podslice/podslice/pkg/plan"
)

// Marks of CPUs that no pod has.
const (
	sharedMark   = "."
	reservedMark = "#"
)

// marks are the owners of CPUs: pods have capital letters, and if several parts of
// a pod have CPUs, each a small letter behind it: "+" for its shared pool, "-" for
// what nobody in it uses.
type marks struct {
	of     map[int]string
	pod    map[int]int // the pod's number, for its colour
	legend []string
	pods   int
}

// letters are A to Z, AA, AB and so on.
func letters(i int) string {
	text := ""
	for i++; i > 0; i = (i - 1) / 26 {
		text = string(rune('A'+(i-1)%26)) + text
	}
	return text
}

// part is what of a pod has CPUs.
type cpuPart struct {
	mark, text string
	cpus       cpuplan.Set
}

// add marks the CPUs of a pod, which has the parts; earlier parts come first.
func (m *marks) add(name string, parts []cpuPart) {
	letter := letters(m.pods)
	m.pods++
	if len(parts) == 1 {
		parts[0].mark = ""
	} else {
		m.legend = append(m.legend, fmt.Sprintf("%s  %s", letter, name))
	}
	for _, p := range parts {
		mark := letter + p.mark
		if len(parts) == 1 {
			m.legend = append(m.legend, fmt.Sprintf("%s  %s, %s: %s", mark, name, p.text, p.cpus))
		} else {
			m.legend = append(m.legend, fmt.Sprintf("  %s  %s: %s", mark, p.text, p.cpus))
		}
		for cpu := range p.cpus.All() {
			if _, taken := m.of[cpu]; !taken {
				m.of[cpu], m.pod[cpu] = mark, m.pods
			}
		}
	}
}

// partsOf are the parts of a pod with CPUs. Those of init containers come last,
// since others have the same CPUs when these have ended.
func partsOf(p plan.PodReport, given plan.Given) []cpuPart {
	var parts, inits []cpuPart
	var pool []string
	var pooled, used cpuplan.Set
	for i, c := range p.Containers {
		cpus := given.Containers[i].CPUs
		switch {
		case c.CPUIsolation == "container":
			part := cpuPart{mark: strings.ToLower(letters(len(parts) + len(inits))), text: "container " + plain(c.Name), cpus: cpus}
			if given.Containers[i].Kind.LongRunning() {
				parts = append(parts, part)
			} else {
				part.text = "init " + part.text
				inits = append(inits, part)
			}
			used = used.Union(cpus)
		case c.CPUIsolation == "pod" && given.Containers[i].Kind.LongRunning():
			pool, pooled = append(pool, plain(c.Name)), pooled.Union(cpus)
		}
	}
	if len(pool) > 0 {
		parts = append(parts, cpuPart{"+", "pod shared pool of " + strings.Join(pool, ", "), pooled})
	}
	if left := given.CPUs.Difference(used).Difference(pooled); !left.IsEmpty() {
		parts = append(parts, cpuPart{"-", "of the pod, used by none of its containers", left})
	}
	return append(parts, inits...)
}

func drawPlan(out io.Writer, n plan.Node, r plan.Report, color painter) error {
	m := marks{of: map[int]string{}, pod: map[int]int{}}
	cpus, _ := n.Records()
	for _, p := range r.Recorded {
		if held := cpus.Record(p.UID).CPUs(); !held.IsEmpty() {
			m.add("pod "+plain(p.UID), []cpuPart{{text: "on record before", cpus: held}})
		}
	}
	for _, p := range r.Pods {
		if !p.Admitted {
			continue
		}
		if parts := partsOf(p, p.Given); len(parts) > 0 {
			m.add(plain(p.Namespace+"/"+p.Name), parts)
		}
	}
	var reserved cpuplan.Set
	if n.CPUs != nil {
		reserved = n.CPUs.Reserved()
	}
	for cpu := range n.Topology.All().All() {
		if _, taken := m.of[cpu]; !taken {
			m.of[cpu] = sharedMark
			if reserved.Contains(cpu) {
				m.of[cpu] = reservedMark
			}
		}
	}
	m.legend = append(m.legend, sharedMark+"  node shared pool")
	if !reserved.IsEmpty() {
		text := "reserved for the system, and in the node shared pool"
		if !reserved.IsSubsetOf(n.SharedCPUs()) {
			text = "reserved for the system alone"
		}
		m.legend = append(m.legend, fmt.Sprintf("%s  %s: %s", reservedMark, text, reserved))
	}
	memory := map[int]string{}
	for _, node := range r.Left.NUMANodes {
		for _, left := range node.Memory {
			if left.Resource == "memory" {
				memory[node.ID] = fmt.Sprintf("%s of %s free for pods", numa.Bytes(left.Free), numa.Bytes(left.Allocatable))
			}
		}
	}
	palette := []string{"32", "33", "34", "35", "36", "92", "93", "94", "95", "96"}
	return picture.Draw(out, n.Machine, picture.Options{
		Mark:   func(cpu int) string { return m.of[cpu] },
		Legend: m.legend,
		Node:   func(id int) string { return memory[id] },
		Paint: func(cpu int, mark string) string {
			if m.pod[cpu] == 0 {
				return mark
			}
			return color.paint(palette[m.pod[cpu]%len(palette)], mark)
		},
		Emphasis: func(text string) string { return color.paint(bold, text) },
	})
}

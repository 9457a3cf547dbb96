// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/utils/cpuset"
)

// Marks of CPUs that belong to nobody in particular. Exclusive slices get upper
// case letters from A on, pod shared pools lower case ones.
const (
	markShared   = '.'
	markReserved = '*'
	markIdle     = '-'
	markConflict = '!'
)

// coresPerLine is how many cores of a NUMA node stand side by side at most.
const coresPerLine = 6

// owners is who has which CPU, and what the marks mean.
type owners struct {
	mark   map[int]rune
	legend []string
}

// own gives CPUs to an owner. A CPU that somebody else has already is shown as a
// conflict: the picture is made from what the kernel says, which may be wrong.
func (o *owners) own(cpus cpuset.CPUSet, mark rune, meaning string) {
	for _, cpu := range cpus.UnsortedList() {
		if _, taken := o.mark[cpu]; taken {
			o.mark[cpu] = markConflict
		} else {
			o.mark[cpu] = mark
		}
	}
	o.legend = append(o.legend, fmt.Sprintf("%c  %s: %s", mark, meaning, cpus))
}

// owned finds the owners of CPUs from the running containers' cpusets.
func owned(r *Report) *owners {
	o := &owners{mark: map[int]rune{}}
	upper, lower := 'A', 'a'
	for _, p := range r.Pods {
		var pool cpuset.CPUSet
		var poolOf []string
		used := cpuset.New()
		for _, c := range p.Containers {
			set, err := cpuset.Parse(c.CPUs)
			if err != nil || set.IsEmpty() {
				continue
			}
			switch c.Isolation {
			case IsolationContainer:
				o.own(set, upper, fmt.Sprintf("exclusive slice of %s in %s", c.Name, p.Name))
				used = used.Union(set)
				upper++
			case IsolationPod:
				pool = pool.Union(set)
				poolOf = append(poolOf, c.Name)
			}
		}
		if len(poolOf) > 0 {
			o.own(pool, lower, fmt.Sprintf("pod shared pool of %s (%s)", p.Name, strings.Join(poolOf, ", ")))
			used = used.Union(pool)
			lower++
		}
		if ids, err := cpuset.Parse(p.CPUIDs); err == nil {
			if idle := ids.Difference(used); !idle.IsEmpty() {
				o.own(idle, markIdle, fmt.Sprintf("allocated to %s, used by no container", p.Name))
			}
		}
	}
	return o
}

// WritePicture draws the machine: a box for each NUMA node, brackets around the
// CPUs of a core, and behind each CPU its owner's mark. reserved are the CPUs
// that the kubelet's configuration keeps for the system.
func WritePicture(w io.Writer, r *Report, reserved string) error {
	o := owned(r)
	system, err := cpuset.Parse(reserved)
	if err != nil {
		return fmt.Errorf("reserved CPUs %q: %w", reserved, err)
	}
	shared := cpuset.New()
	for _, cpu := range r.Machine.CPUs {
		if _, taken := o.mark[cpu.ID]; !taken && !system.Contains(cpu.ID) {
			shared = shared.Union(cpuset.New(cpu.ID))
		}
	}
	if !shared.IsEmpty() {
		o.own(shared, markShared, "node shared pool")
	}
	if !system.IsEmpty() {
		o.own(system, markReserved, "reserved CPUs; exclusive to nobody")
	}
	var b strings.Builder
	for _, node := range r.Machine.Nodes {
		drawNode(&b, r.Machine, node, o.mark)
	}
	for _, line := range o.legend {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	for _, mark := range o.mark {
		if mark == markConflict {
			fmt.Fprintf(&b, "  %c  CONFLICT: more than one owner\n", markConflict)
			break
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

func drawNode(b *strings.Builder, m Machine, node Node, mark map[int]rune) {
	var cores []string
	var sockets, caches []string
	seen := map[string]bool{}
	for _, cpu := range m.CPUs {
		if cpu.Node != node.ID {
			continue
		}
		sockets = appendNew(sockets, fmt.Sprint(cpu.Socket))
		caches = appendNew(caches, cpu.L3)
		if seen[cpu.Siblings] {
			continue
		}
		seen[cpu.Siblings] = true
		cores = append(cores, drawCore(cpu.Siblings, mark))
	}
	title := fmt.Sprintf(" NUMA node %d, socket %s, L3 of CPUs %s, %.1f GiB ",
		node.ID, strings.Join(sockets, " and "), strings.Join(caches, " and "), float64(node.Memory)/(1<<30))
	if len(cores) == 0 {
		title = fmt.Sprintf(" NUMA node %d, no CPUs, %.1f GiB ", node.ID, float64(node.Memory)/(1<<30))
	}
	var rows []string
	for i := 0; i < len(cores); i += coresPerLine {
		rows = append(rows, strings.Join(cores[i:min(i+coresPerLine, len(cores))], " "))
	}
	width := len(title) + 1
	for _, row := range rows {
		width = max(width, len(row)+2)
	}
	fmt.Fprintf(b, "+-%s%s+\n", title, strings.Repeat("-", width-len(title)-1))
	for _, row := range rows {
		fmt.Fprintf(b, "| %-*s|\n", width-1, row)
	}
	fmt.Fprintf(b, "+%s+\n", strings.Repeat("-", width))
}

// drawCore writes the CPUs of a core between brackets.
func drawCore(siblings string, mark map[int]rune) string {
	set, err := cpuset.Parse(siblings)
	if err != nil {
		return "[?]"
	}
	var threads []string
	for _, cpu := range set.List() {
		threads = append(threads, fmt.Sprintf("%2d%c", cpu, mark[cpu]))
	}
	return "[" + strings.Join(threads, " ") + "]"
}

func appendNew(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/plan"
)

// render writes the plan in the format that is asked for.
func (f *planFlags) render(to io.Writer, n plan.Node, r plan.Report) error {
	color, out := newPainter(f.noColor, to), &keepsError{to: to}
	switch f.output {
	case "json", "yaml":
		return render(out, f.output, r, nil)
	case "picture":
		if err := drawPlan(out, n, r, color); err != nil {
			return err
		}
	default:
		planRows(r, f.output == "wide").write(out, color)
	}
	if f.explain {
		writeSteps(out, r)
	}
	writeRefused(out, r, color)
	if f.output != "picture" {
		writeRecorded(out, r)
	}
	writeLeft(out, r)
	fmt.Fprintf(out, "\n%d of %d pods are admitted\n", len(r.Pods)-r.Refused(), len(r.Pods))
	return out.err
}

// keepsError writes until that fails, and remembers why, so that not every line has
// to be looked after.
type keepsError struct {
	to  io.Writer
	err error
}

func (w *keepsError) Write(text []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.to.Write(text)
	w.err = err
	return n, err
}

// painter colours text on a terminal. Colours repeat what the text says.
type painter struct{ on bool }

// noColor is the flag --no-color.
func noColor(cmd *cobra.Command) bool {
	on, _ := cmd.Flags().GetBool(noColorFlag) // every command has it
	return on
}

// newPainter paints unless the flag --no-color or the environment forbids it, or
// nobody looks.
func newPainter(noColor bool, out io.Writer) painter {
	return painter{on: !noColor && os.Getenv("NO_COLOR") == "" && isTerminal(out)}
}

const (
	red  = "31"
	bold = "1"
)

func (p painter) paint(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// rows are lines of columns.
type rows struct {
	cells  [][]string
	colors []string
}

func (r *rows) add(color string, cells ...string) {
	r.cells, r.colors = append(r.cells, cells), append(r.colors, color)
}

func (r *rows) write(out io.Writer, color painter) {
	var widths []int
	for _, row := range r.cells {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	for i, row := range r.cells {
		var line strings.Builder
		for j, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[j], cell)
		}
		text := strings.TrimRight(line.String(), " ")
		if r.colors[i] != "" {
			text = color.paint(r.colors[i], text)
		}
		fmt.Fprintln(out, text)
	}
}

func planRows(r plan.Report, wide bool) *rows {
	var t rows
	head := []string{"POD", "CONTAINER", "VERDICT OR LEVEL", "CPUS", "MEMORY", "CPU.MAX", "ALIGNED"}
	if wide {
		head = []string{"POD", "CONTAINER", "KIND", "VERDICT OR LEVEL", "MEMORY LEVEL", "CPUS", "MEMORY NODES", "MEMORY", "CPU.MAX", "SMT", "LLC", "NUMA", "QOS"}
	}
	t.add(bold, head...)
	for _, group := range groups(r.Pods) {
		p, name := group[0], groupName(group)
		verdict, color, cpus := "admitted", "", dash(p.CPUs)
		if !p.Admitted {
			verdict, color = "refused", red
		}
		if wide {
			t.add(color, name, "", "", verdict, "", cpus, "", planBlocks(p.Memory), dash(p.CPUMax), "", "", "", string(p.QOSClass))
		} else {
			t.add(color, name, "", verdict, cpus, planBlocks(p.Memory), dash(p.CPUMax))
		}
		for _, c := range p.Containers {
			smt, llc, numaNodes := "-", "-", "-"
			aligned := "-"
			if a := c.Aligned; a != nil {
				smt, numaNodes = yes(a.SMT), yes(a.NUMA)
				words := []string{word("smt", a.SMT)}
				if a.LLC != nil {
					llc = yes(*a.LLC)
					words = append(words, word("llc", *a.LLC))
				}
				words = append(words, word("numa", a.NUMA))
				if aligned = strings.Join(strings.Fields(strings.Join(words, " ")), ","); aligned == "" {
					aligned = "no"
				}
			}
			if wide {
				t.add("", "", plain(c.Name), c.Kind, string(c.CPUIsolation), string(c.MemoryIsolation), dash(c.CPUs), dash(c.MemoryNodes), planBlocks(c.Memory), c.CPUMax, smt, llc, numaNodes)
			} else {
				t.add("", "", plain(c.Name), string(c.CPUIsolation), dash(c.CPUs), planBlocks(c.Memory), c.CPUMax, aligned)
			}
		}
	}
	return &t
}

// groups puts together what is said once: pods of one object, one after the other,
// that are refused with the same words.
func groups(pods []plan.PodReport) [][]plan.PodReport {
	var all [][]plan.PodReport
	for i, p := range pods {
		if i > 0 && !p.Admitted {
			before := pods[i-1]
			if !before.Admitted && before.Source == p.Source && before.Reason == p.Reason && before.Message == p.Message {
				all[len(all)-1] = append(all[len(all)-1], p)
				continue
			}
		}
		all = append(all, []plan.PodReport{p})
	}
	return all
}

// groupName is "default/web-3", or "default/web-3 to web-9".
func groupName(group []plan.PodReport) string {
	name := plain(group[0].Namespace + "/" + group[0].Name)
	if len(group) > 1 {
		name += " to " + plain(group[len(group)-1].Name)
	}
	return name
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func word(text string, is bool) string {
	if is {
		return text
	}
	return ""
}

func planBlocks(list []plan.BlockReport) string {
	var texts []string
	for _, b := range list {
		if b.Bytes == 0 {
			continue // of an init container, whose memory others have again
		}
		texts = append(texts, fmt.Sprintf("%s %s on %s", plain(b.Resource), numa.Bytes(b.Bytes), b.NUMANodes))
	}
	return dash(strings.Join(texts, ", "))
}

// writeRefused explains refusals, and what admitted containers do not get.
func writeRefused(out io.Writer, r plan.Report, color painter) {
	for _, group := range groups(r.Pods) {
		p, are := group[0], "is"
		if len(group) > 1 {
			are = fmt.Sprintf("(%d pods) are", len(group))
		}
		if !p.Admitted {
			fmt.Fprintf(out, "\n%s\n  %s\n", color.paint(red, fmt.Sprintf("%s %s refused: %s", groupName(group), are, p.Reason)), plain(p.Message))
		}
		writeNotes(out, p)
	}
}

// writeNotes writes what containers do not get, the same of several once.
func writeNotes(out io.Writer, p plan.PodReport) {
	names := map[string][]string{}
	var notes []string
	for _, c := range p.Containers {
		for _, note := range c.Notes {
			if names[note] == nil {
				notes = append(notes, note)
			}
			names[note] = append(names[note], plain(c.Name))
		}
	}
	for _, note := range notes {
		what := "container"
		if len(names[note]) > 1 {
			what = "containers"
		}
		fmt.Fprintf(out, "\n%s: %s %s: %s\n", plain(p.Namespace+"/"+p.Name), what, strings.Join(names[note], ", "), note)
	}
}

func writeRecorded(out io.Writer, r plan.Report) {
	if len(r.Recorded) == 0 {
		return
	}
	fmt.Fprintln(out, "\non record before:")
	var t rows
	for _, p := range r.Recorded {
		t.add("", "  "+plain(p.UID), "cpus "+dash(p.CPUs), planBlocks(p.Memory))
	}
	t.write(out, painter{})
}

func writeLeft(out io.Writer, r plan.Report) {
	fmt.Fprintln(out, "\nleft on the node:")
	var t rows
	for _, n := range r.Left.NUMANodes {
		cpus := fmt.Sprintf("0 of %d CPUs", n.AllocatableCPUs)
		switch {
		case r.Config.CPUManagerPolicy == "none":
			cpus = "no CPUs of a container's own"
		case n.AllocatableCPUs == 0:
			cpus = "no CPUs"
		case n.FreeCPUs != "":
			cpus = fmt.Sprintf("%d of %d CPUs: %s", n.FreeCount, n.AllocatableCPUs, n.FreeCPUs)
		}
		var memory []string
		for _, m := range n.Memory {
			memory = append(memory, fmt.Sprintf("%s %s of %s", plain(m.Resource), inBytes(m.Free), inBytes(m.Allocatable)))
		}
		t.add("", fmt.Sprintf("  NUMA node %d", n.ID), cpus, strings.Join(memory, ", "))
	}
	t.write(out, painter{})
	fmt.Fprintf(out, "  node shared pool %s\n", dash(r.Left.NodeSharedPool))
	var requests []string
	for _, q := range r.Left.Requests {
		requests = append(requests, fmt.Sprintf("%s %s of %s", plain(q.Resource), amount(q.Resource, q.Requested), amount(q.Resource, q.Allocatable)))
	}
	fmt.Fprintf(out, "  requested: %s\n", strings.Join(requests, ", "))
}

func amount(resource string, of int64) string {
	switch {
	case resource == "pods":
		return fmt.Sprint(of)
	case resource == "cpu" && of%1000 == 0:
		return fmt.Sprint(of / 1000)
	case resource == "cpu":
		return fmt.Sprintf("%dm", of)
	}
	return inBytes(uint64(max(of, 0)))
}

// inBytes is numa.Bytes with a unit where that has none.
func inBytes(size uint64) string {
	text := numa.Bytes(size)
	if size > 0 && text[len(text)-1] != 'i' {
		text += " bytes"
	}
	return text
}

// mostHints is how many hints of a resource a line has.
const mostHints = 8

func writeSteps(out io.Writer, r plan.Report) {
	for _, p := range r.Pods {
		for _, s := range p.Explain {
			what := plain(p.Namespace + "/" + p.Name)
			if s.Container != "" {
				what += ", container " + plain(s.Container)
			}
			fmt.Fprintf(out, "\n%s:\n", what)
			for _, q := range s.Resources {
				fmt.Fprintf(out, "  %s: %s\n", plain(q.Resource), hintTexts(q, p.AtFault))
			}
			if len(s.Resources) == 0 {
				fmt.Fprintln(out, "  no resource has a preference")
			}
			verdict := "accepted"
			if !s.Admitted {
				verdict = "not accepted by policy " + r.Config.TopologyManagerPolicy
			}
			fmt.Fprintf(out, "  merged: %s, %s\n", hintText(s.Merged), verdict)
			if s.RunnerUp != nil {
				fmt.Fprintf(out, "  runner-up: %s\n", hintText(*s.RunnerUp))
			}
		}
	}
}

func hintTexts(q plan.ResourceReport, atFault bool) string {
	switch {
	case len(q.Hints) == 0 && atFault:
		return "not looked for, since no node could admit the pod as it is"
	case len(q.Hints) == 0:
		return "no NUMA nodes have it"
	}
	var texts []string
	for i, h := range q.Hints {
		if i == mostHints {
			texts = append(texts, fmt.Sprintf("and %d more", len(q.Hints)-i+q.More))
			break
		}
		texts = append(texts, hintText(h))
	}
	return strings.Join(texts, "; ")
}

func hintText(h plan.HintReport) string {
	text := "{" + h.NUMANodes + "}"
	if h.NUMANodes == "any" {
		text = "any"
	}
	if h.Preferred {
		text += " preferred"
	}
	return text
}

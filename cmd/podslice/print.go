// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/state"
)

// checkFormat is for a command that does something before it renders what.
func checkFormat(format string) error {
	return render(io.Discard, format, struct{}{}, func(io.Writer, struct{}) {})
}

// render writes a value in one of the formats of -o.
func render[T any](out io.Writer, format string, value T, table func(io.Writer, T)) error {
	var text []byte
	var err error
	switch format {
	case "table":
		var b bytes.Buffer
		table(&b, value)
		text = b.Bytes()
	case "json":
		if text, err = json.MarshalIndent(value, "", "  "); err == nil {
			text = append(text, '\n')
		}
	case "yaml":
		text, err = yaml.Marshal(value)
	default:
		err = fmt.Errorf("the format is %q: want table, json or yaml", format)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

func showTable(out io.Writer, v state.View) {
	if v.CPU != nil {
		fileLines(out, "CPU manager", v.CPU.FileView)
		fmt.Fprintf(out, "  node shared pool %s\n", dash(v.CPU.Shared))
		for _, id := range slices.Sorted(maps.Keys(v.CPU.ByID)) {
			fmt.Fprintf(out, "  container with the ID %s: CPUs %s\n", plain(id), dash(v.CPU.ByID[id]))
		}
	}
	if v.Memory != nil {
		fileLines(out, "memory manager", v.Memory.FileView)
		for _, n := range v.Memory.Nodes {
			for _, r := range n.Resources {
				fmt.Fprintf(out, "  NUMA node %d, %s: %s free of %s, %s reserved for the system\n", n.ID, r.Name, numa.Bytes(r.Free), numa.Bytes(r.Allocatable), numa.Bytes(r.SystemReserved))
			}
		}
	}
	if len(v.Pods) == 0 {
		if v.CPU == nil || len(v.CPU.ByID) == 0 {
			fmt.Fprintln(out, "\nno pod has anything on record")
		}
		return
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POD\tCONTAINER\tLEVEL\tCPUS\tMEMORY")
	for _, p := range v.Pods {
		fmt.Fprintf(w, "%s\t\t\t%s\t%s\n", plain(p.UID), dash(p.CPUs), blocks(p.Memory))
		for _, c := range p.Containers {
			fmt.Fprintf(w, "\t%s\t%s\t%s\t%s\n", plain(c.Name), dash(c.Level), dash(c.CPUs), blocks(c.Memory))
		}
	}
	w.Flush()
}

func fileLines(out io.Writer, manager string, v state.FileView) {
	version := "of no known version"
	if v.Version > 0 {
		version = fmt.Sprintf("version %d", v.Version)
	}
	fmt.Fprintf(out, "%s: %s, %s, policy %s\n", manager, plain(v.File), version, dash(plain(v.Policy)))
	for _, p := range v.Parts {
		verdict := "right"
		switch {
		case p.Error != "":
			verdict = "cannot be read: " + p.Error
		case p.Checksum != p.Computed:
			verdict = fmt.Sprintf("wrong, the content has %d", p.Computed)
		}
		if p.Error == "" {
			verdict = fmt.Sprintf("checksum %d is %s", p.Checksum, verdict)
		}
		if p.Used && len(v.Parts) > 1 {
			verdict += "; this part counts"
		}
		fmt.Fprintf(out, "  %s part: %s\n", p.Name, plain(verdict))
	}
}

// plain is text of a file in which nothing can disturb a terminal or the table.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// plainLines is plain for text of several lines.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return strings.Join(lines, "\n")
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func blocks(list []state.BlockView) string {
	var texts []string
	for _, b := range list {
		texts = append(texts, plain(b.Resource)+" "+b.String())
	}
	return dash(strings.Join(texts, ", "))
}

// verdict is what verify has found.
type verdict struct {
	Wrong    int         `json:"wrong"`
	Notes    int         `json:"notes"`
	Findings []explained `json:"findings"`
}

type explained struct {
	state.Finding
	Meaning string `json:"meaning"`
}

func newVerdict(list []state.Finding) verdict {
	v := verdict{Wrong: state.Wrong(list), Findings: []explained{}}
	v.Notes = len(list) - v.Wrong
	for _, f := range list {
		v.Findings = append(v.Findings, explained{f, f.Meaning()})
	}
	return v
}

func verifyTable(out io.Writer, v verdict) {
	for _, f := range v.Findings {
		fmt.Fprintf(out, "%s (%s): %s\n    %s\n", f.Severity, f.Rule, plain(f.String()), f.Meaning)
	}
	switch {
	case v.Wrong == 0 && v.Notes == 0:
		fmt.Fprintln(out, "nothing is wrong")
	default:
		fmt.Fprintf(out, "%d wrong, %d notes\n", v.Wrong, v.Notes)
	}
}

func diffTable(out io.Writer, list []state.Difference) {
	if len(list) == 0 {
		fmt.Fprintln(out, "nothing is different")
	}
	for _, d := range list {
		fmt.Fprintln(out, plain(d.String()))
	}
}

func repairTable(out io.Writer, r repair) {
	for _, f := range r.Files {
		for _, c := range f.Changes {
			fmt.Fprintln(out, plain(c.String()))
		}
		text := string(f.Action)
		switch f.Action {
		case written:
			text = "written to " + filepath.Dir(f.Written)
		case replaced:
			text = "replaced; the old one is " + filepath.Base(f.Kept)
		case moved:
			text = "moved to " + filepath.Base(f.Kept)
		case notWritten:
			text = "nothing is written without --to or --write"
		}
		if len(f.Changes) == 0 {
			fmt.Fprintf(out, "%s: nothing to repair\n", f.File)
		}
		if len(f.Changes) > 0 || f.Action == written {
			fmt.Fprintf(out, "%s: %s\n", f.File, text)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteTable writes a line for each spec: where it is, what came of it, what
// upstream's kubelet made of it, and its name; and below it what there is to say.
func WriteTable(w io.Writer, specs []Spec, now, stock *Record, e *Exceptions) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SPEC\tRESULT\tSECONDS\tUPSTREAM'S KUBELET\tNAME")
	for _, s := range specs {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Place(), cells(now, s), stockCell(stock, s), shortName(s))
		if r, ok := now.Of(s); ok {
			if note := e.Note(r); note != "" {
				fmt.Fprintf(t, "\t\t\t\t  (%s)\n", note)
			}
		}
	}
	return t.Flush()
}

func cells(r *Record, s Spec) string {
	x, ok := r.Of(s)
	if !ok {
		return "not run\t"
	}
	return fmt.Sprintf("%s\t%.0f", x.State, x.Seconds)
}

func stockCell(r *Record, s Spec) string {
	x, ok := r.Of(s)
	if !ok {
		return "not on record"
	}
	return fmt.Sprintf("%s (%.0f s)", x.State, x.Seconds)
}

// shortName leaves out what is the same for all: the tags.
func shortName(s Spec) string {
	var words []string
	for _, word := range strings.Fields(s.Name) {
		if strings.HasPrefix(word, "[") && strings.HasSuffix(word, "]") {
			continue
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// Summary counts the results of the specs and lists what is wrong with them.
func Summary(specs []Spec, now *Record, e *Exceptions) (text string, wrong []string) {
	count := map[State]int{}
	for _, s := range specs {
		r, ok := now.Of(s)
		if !ok {
			wrong = append(wrong, s.Place()+": has not run")
			continue
		}
		count[r.State]++
		if what := e.Judge(r); what != "" {
			wrong = append(wrong, s.Place()+": "+what+": "+firstLine(r.Reason))
		}
	}
	return fmt.Sprintf("%d specs: %d passed, %d failed, %d skipped", len(specs), count[Passed], count[Failed], count[Skipped]), wrong
}

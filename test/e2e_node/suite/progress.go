// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"regexp"
	"strconv"
	"strings"
)

// progressLines matches, for grep -E, the lines of the suite's output that tell how
// far it is: a spec's name when it begins, and what came of it when it is over.
const progressLines = `^(\[sig-|(•|S|P)( \[[A-Z ]+\])* \[[0-9.]+ seconds\])`

// over matches the line that the suite prints when a spec is over.
var over = regexp.MustCompile(`^(•|S|P)((?: \[[A-Z ]+\])*) \[([0-9.]+) seconds\]`)

// readProgress returns the specs that are over, in their order, from lines of the
// suite's output. Why one failed or was skipped is in the report at the end.
func readProgress(output string, specs []Spec) []Result {
	var results []Result
	begun := ""
	for line := range strings.Lines(output) {
		match := over.FindStringSubmatch(line)
		if match == nil {
			begun = strings.TrimSpace(line)
			continue
		}
		spec, ok := named(specs, begun)
		if !ok {
			continue
		}
		begun = ""
		result := Result{Spec: spec, State: Failed}
		switch {
		case match[1] != "•" || strings.Contains(match[2], "SKIPPED"):
			result.State = Skipped
		case match[2] == "" || match[2] == " [SLOW TEST]":
			result.State = Passed
		}
		result.Seconds, _ = strconv.ParseFloat(match[3], 64)
		results = append(results, result)
	}
	return results
}

// named finds a spec by the line with its name, which may go on with its labels. In the
// line an empty text has a place, between two spaces.
func named(specs []Spec, line string) (found Spec, ok bool) {
	line = squeezed(line)
	for _, s := range specs {
		// One name may be the beginning of another.
		if strings.HasPrefix(line, squeezed(s.Name)) && len(s.Name) > len(found.Name) {
			found, ok = s, true
		}
	}
	return found, ok
}

func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

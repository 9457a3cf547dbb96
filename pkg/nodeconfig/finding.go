// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Severity is how bad a finding is.
type Severity string

const (
	// Error keeps the kubelet from starting.
	Error Severity = "error"
	// Warning is what the kubelet accepts, but does not do as it was meant.
	Warning Severity = "warning"
	// Note is worth knowing, and may be right.
	Note Severity = "note"
)

// Finding is one thing about a configuration.
type Finding struct {
	Severity Severity `json:"severity"`
	// Field is the path of the field, as "reservedMemory[1].limits.memory".
	Field string `json:"field"`
	// Message says what is wrong, with both sides.
	Message string `json:"message"`
	// Fix is the value that would be right, or what to do.
	Fix string `json:"fix,omitempty"`
}

func (f Finding) String() string {
	text := f.Field + ": " + f.Message
	if f.Fix != "" {
		text += "; right would be: " + f.Fix
	}
	return text
}

// Findings are several.
type Findings []Finding

func (f *Findings) add(severity Severity, field, fix, format string, args ...any) {
	*f = append(*f, Finding{severity, field, fmt.Sprintf(format, args...), fix})
}

func (f *Findings) refuse(field, fix, format string, args ...any) {
	f.add(Error, field, fix, format, args...)
}

func (f *Findings) warn(field, fix, format string, args ...any) {
	f.add(Warning, field, fix, format, args...)
}

func (f *Findings) note(field, format string, args ...any) { f.add(Note, field, "", format, args...) }

// orElse adds an error if nothing was found that explains it.
func (f *Findings) orElse(field string, err error) {
	if len(*f) == 0 {
		f.refuse(field, "", "%v", err)
	}
}

// nearest is the name that was probably meant, or "" if none is near.
func nearest(name string, names iter.Seq[string]) string {
	if len(name) > 100 { // nobody meant that
		return ""
	}
	best, least := "", 1+len(name)/4
	for _, other := range slices.Sorted(names) {
		d := edits(name, other)
		if len(name) > 3 && strings.HasPrefix(other, name) {
			d = min(d, 1)
		}
		if d < least {
			best, least = other, d
		}
	}
	return best
}

// edits is how many letters must be put in, taken out or replaced to make one
// text of the other; upper and lower case are the same.
func edits(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

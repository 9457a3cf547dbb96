// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import "fmt"

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

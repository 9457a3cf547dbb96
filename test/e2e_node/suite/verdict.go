// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Exceptions are specs of which something else is known than that they must pass.
type Exceptions struct {
	// Missing are parts of the reason of a spec that skips itself for want of what
	// the emulated machine cannot have, with the name of what that is.
	Missing map[string]string `json:"missing"`
	// Fails are specs, by name, that fail whichever kubelet runs, with the reason.
	Fails map[string]string `json:"fails"`
}

// ReadExceptions reads the file of exceptions.
func ReadExceptions(name string) (*Exceptions, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	e := new(Exceptions)
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

func (e *Exceptions) missing(r Result) (string, bool) {
	for part, what := range e.Missing {
		if strings.Contains(r.Reason, part) {
			return what, true
		}
	}
	return "", false
}

// Judge says what is wrong with a result, or nothing. All specs are to pass, but
// for the exceptions.
func (e *Exceptions) Judge(r Result) string {
	switch r.State {
	case Skipped:
		if _, ok := e.missing(r); !ok {
			return "skipped, and not for want of what the machine cannot have"
		}
	case Failed:
		if _, ok := e.Fails[r.Name]; !ok {
			return "failed"
		}
	}
	return ""
}

// Note is what is to be said of a result beside its state.
func (e *Exceptions) Note(r Result) string {
	switch r.State {
	case Skipped:
		if what, ok := e.missing(r); ok {
			return "cannot be had: " + what
		}
		return firstLine(r.Reason)
	case Failed:
		if why, ok := e.Fails[r.Name]; ok {
			return why
		}
		return firstLine(r.Reason)
	}
	if r.Alone {
		return "failed among others"
	}
	return ""
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > 160 {
		line = line[:157] + "..."
	}
	return line
}

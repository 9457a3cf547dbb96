// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/podslice/podslice/test/e2e_node/guest"
)

// Exceptions are specs of which something else is known than that they must pass.
type Exceptions struct {
	// Missing are parts of the reason of a spec that skips itself for want of what
	// the emulated machine cannot have, with the name of what that is.
	Missing map[string]string `json:"missing"`
	// Never are specs, by name, that cannot pass whichever kubelet runs, on whatever
	// machine, with the reason.
	Never map[string]string `json:"never"`
	// Machines are the shapes of machines for specs that cannot pass on the usual
	// one, whichever kubelet runs, and these specs by name, with the reason.
	Machines map[string]map[string]string `json:"machines"`
}

// MachineOf is the shape of the machine that a spec needs, "" for the usual one.
func (e *Exceptions) MachineOf(s Spec) string {
	for shape, specs := range e.Machines {
		if _, ok := specs[s.Name]; ok {
			return shape
		}
	}
	return ""
}

// Unknown are the names that no spec of the suite has.
func (e *Exceptions) Unknown(specs []Spec) []string {
	known := map[string]bool{}
	for _, s := range specs {
		known[s.Name] = true
	}
	names := slices.Collect(maps.Keys(e.Never))
	for _, specs := range e.Machines {
		names = slices.AppendSeq(names, maps.Keys(specs))
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return known[name] })
}

// check says what is wrong with the machines.
func (e *Exceptions) check() error {
	of := map[string]string{}
	for shape, specs := range e.Machines {
		if _, err := guest.ParseShape(shape); err != nil {
			return err
		}
		for name := range specs {
			if other, ok := of[name]; ok {
				return fmt.Errorf("spec %q is for machine %q and for machine %q", name, min(shape, other), max(shape, other))
			}
			of[name] = shape
		}
	}
	return nil
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
	if err := e.check(); err != nil {
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
	if _, ok := e.Never[r.Name]; ok {
		return ""
	}
	switch r.State {
	case Skipped:
		if _, ok := e.missing(r); !ok {
			return "skipped, and not for want of what the machine cannot have"
		}
	case Failed:
		return "failed"
	}
	return ""
}

// Note is what is to be said of a result beside its state.
func (e *Exceptions) Note(r Result) string {
	var notes []string
	if r.Machine != "" {
		notes = append(notes, "on "+r.Machine+": "+e.Machines[r.Machine][r.Name])
	}
	never := e.Never[r.Name]
	what, missing := e.missing(r)
	switch {
	case r.State == Passed && never != "":
		notes = append(notes, "passed, although it is said never to: "+never)
	case r.State == Passed && r.Alone:
		notes = append(notes, "failed among others")
	case r.State == Passed:
	case never != "":
		notes = append(notes, never)
	case r.State == Skipped && missing:
		notes = append(notes, "cannot be had: "+what)
	default:
		notes = append(notes, firstLine(r.Reason))
	}
	return strings.Join(notes, "; ")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > 160 {
		line = line[:157] + "..."
	}
	return line
}

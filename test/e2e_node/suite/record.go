// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Record is what came of specs, with one kubelet on one machine.
type Record struct {
	// Kubelet is its version, Machine the shape of the emulated machine, or the host.
	Kubelet string `json:"kubelet"`
	Machine string `json:"machine"`
	// Inputs tells runs apart whose results do not belong together.
	Inputs  string   `json:"inputs,omitempty"`
	Results []Result `json:"results"`
}

// ReadRecord reads a record; one that does not exist is empty.
func ReadRecord(name string) (*Record, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &Record{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("record %s: %w", name, err)
	}
	return r, nil
}

// Write replaces a record. Results are sorted by place and name.
func (r *Record) Write(name string) error {
	slices.SortFunc(r.Results, func(a, b Result) int { return compareSpecs(a.Spec, b.Spec) })
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".part", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

func compareSpecs(a, b Spec) int {
	if c := strings.Compare(a.File, b.File); c != 0 {
		return c
	}
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return strings.Compare(a.Name, b.Name)
}

// Of returns what came of a spec. The name says which it is: another release may
// have it on another line.
func (r *Record) Of(s Spec) (Result, bool) {
	i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Name == s.Name })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

// Add puts results in the place of earlier ones of the same specs.
func (r *Record) Add(results ...Result) {
	byName := map[string]Result{}
	for _, x := range append(slices.Clone(r.Results), results...) {
		byName[x.Name] = x
	}
	r.Results = slices.SortedFunc(maps.Values(byName), func(a, b Result) int { return compareSpecs(a.Spec, b.Spec) })
}

// Forget drops what came of specs.
func (r *Record) Forget(specs []Spec) {
	r.Results = slices.DeleteFunc(r.Results, func(x Result) bool {
		return slices.ContainsFunc(specs, func(s Spec) bool { return s.Name == x.Name })
	})
}

// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Spec is one test of the suite.
type Spec struct {
	// File and Line say where it is, below test/e2e_node. Specs of a table share
	// them.
	File string `json:"file"`
	Line int    `json:"line"`
	// Name is the texts of the spec and of all that it stands in.
	Name string `json:"name"`
}

// Place is file and line.
func (s Spec) Place() string { return fmt.Sprintf("%s:%d", s.File, s.Line) }

// group is the outermost text.
func (s Spec) group() string {
	before, _, _ := strings.Cut(s.Name, " [Feature:")
	return s.File + " " + before
}

// State is what came of a spec.
type State string

// What comes of specs. Skipped is what a spec does that misses something.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped"
)

// Result is what came of a spec.
type Result struct {
	Spec
	State   State   `json:"state"`
	Seconds float64 `json:"seconds"`
	// Reason is why it failed or was skipped, in the suite's words.
	Reason string `json:"reason,omitempty"`
	// Alone is set if it failed among others, and this is what came of it alone.
	Alone bool `json:"alone,omitempty"`
	// Machine is the shape of the emulated machine, if not the record's.
	Machine string `json:"machine,omitempty"`

	output string
}

// ginkgoReport is what is read of the suite's report.
type ginkgoReport struct {
	SpecReports []ginkgoSpec
}

type ginkgoSpec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	LeafNodeLocation        struct {
		FileName   string
		LineNumber int
	}
	State                      string
	RunTime                    time.Duration
	NumAttempts                int
	Failure                    struct{ Message string }
	CapturedGinkgoWriterOutput string
}

func (g ginkgoSpec) spec() Spec {
	// The focus is matched with a name in which empty texts have no place.
	texts := slices.DeleteFunc(append(slices.Clone(g.ContainerHierarchyTexts), g.LeafNodeText), func(text string) bool { return text == "" })
	return Spec{
		File: path.Base(g.LeafNodeLocation.FileName),
		Line: g.LeafNodeLocation.LineNumber,
		Name: strings.Join(texts, " "),
	}
}

// ran says whether the spec was selected, and not only left out by the focus. A
// spec that skips itself says why.
func (g ginkgoSpec) ran() bool {
	return g.LeafNodeType == "It" && (g.State != "skipped" || g.Failure.Message != "")
}

func readReport(data []byte) ([]ginkgoSpec, error) {
	var reports []ginkgoReport
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("report of the suite: %w", err)
	}
	if len(reports) != 1 {
		return nil, fmt.Errorf("report of the suite: %d suites in it, want one", len(reports))
	}
	return reports[0].SpecReports, nil
}

// ReadSpecs returns the selected specs from the report of a dry run, sorted by
// place: the suite shuffles them.
func ReadSpecs(report []byte) ([]Spec, error) {
	all, err := readReport(report)
	if err != nil {
		return nil, err
	}
	var specs []Spec
	seen := map[string]bool{}
	for _, g := range all {
		if !g.ran() {
			continue
		}
		s := g.spec()
		if seen[s.Name] {
			return nil, fmt.Errorf("two specs are named %q", s.Name)
		}
		seen[s.Name] = true
		specs = append(specs, s)
	}
	slices.SortFunc(specs, compareSpecs)
	return specs, nil
}

// ReadResults returns what came of the specs that ran, from the report of a run.
func ReadResults(report []byte) ([]Result, error) {
	all, err := readReport(report)
	if err != nil {
		return nil, err
	}
	var results []Result
	for _, g := range all {
		if !g.ran() {
			continue
		}
		r := Result{Spec: g.spec(), Seconds: g.RunTime.Seconds(), Reason: strings.TrimSpace(g.Failure.Message), output: g.CapturedGinkgoWriterOutput}
		switch g.State {
		case "passed":
			r.State = Passed
		case "skipped":
			r.State = Skipped
		default: // failed, panicked, timedout, aborted, interrupted
			r.State = Failed
			if g.State != "failed" {
				r.Reason = g.State + ": " + r.Reason
			}
		}
		results = append(results, r)
	}
	return results, nil
}

// setupFailure is the reason why the suite itself could not start, if it could
// not.
func setupFailure(report []byte) string {
	all, err := readReport(report)
	if err != nil {
		return ""
	}
	for _, g := range all {
		if g.LeafNodeType != "It" && g.State == "failed" {
			return g.LeafNodeType + ": " + g.Failure.Message
		}
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	ImportPath  string // of build-output and build-fail
	FailedBuild string // of a package that could not be tested: what did not compile
}

// outcome is how a test or a package ended.
type outcome string

const (
	passed     outcome = "pass"
	failed     outcome = "fail"
	skipped    outcome = "skip"
	unfinished outcome = "unfinished" // it began, and its package ended before it did
)

// packageResult is what go test said about one package.
type packageResult struct {
	Path    string
	Outcome outcome
	Seconds float64
	Cached  bool
	Tests   map[string]outcome
	// Output is of the package itself and of tests that did not pass.
	Output map[string][]string
	// NoTests is a package that has no test files.
	NoTests bool
}

// readEvents reads go test -json to its end. each, unless nil, is called when a
// package is done.
func readEvents(r io.Reader, each func(*packageResult)) (map[string]*packageResult, error) {
	results := map[string]*packageResult{}
	builds := map[string][]string{}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if jsonErr := json.Unmarshal([]byte(line), &e); jsonErr != nil {
				return results, fmt.Errorf("go test -json wrote %q: %w", strings.TrimSpace(line), jsonErr)
			}
			if e.Action == "build-output" {
				builds[e.ImportPath] = append(builds[e.ImportPath], e.Output)
			} else if e.Package != "" {
				p := results[e.Package]
				if p == nil {
					p = &packageResult{Path: e.Package, Tests: map[string]outcome{}, Output: map[string][]string{}}
					results[e.Package] = p
				}
				if p.take(e, builds) && each != nil {
					each(p)
				}
			}
		}
		if err == io.EOF {
			return results, nil
		}
		if err != nil {
			return results, err
		}
	}
}

// take adds an event of the package, and says whether it is the last one.
func (p *packageResult) take(e event, builds map[string][]string) bool {
	switch e.Action {
	case "output":
		p.Output[e.Test] = append(p.Output[e.Test], e.Output)
		if e.Test == "" {
			p.Cached = p.Cached || strings.HasPrefix(e.Output, "ok ") && strings.Contains(e.Output, "(cached)")
			p.NoTests = p.NoTests || strings.Contains(e.Output, "[no test files]")
		}
	case "run":
		p.Tests[e.Test] = unfinished
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.Outcome, p.Seconds = outcome(e.Action), e.Elapsed
			if e.FailedBuild != "" {
				p.Output[""] = append(p.Output[""], builds[e.FailedBuild]...)
			}
			return true
		}
		p.Tests[e.Test] = outcome(e.Action)
		if e.Action != "fail" {
			delete(p.Output, e.Test)
		}
	}
	return false
}

// failures names the tests that failed, without those that failed only because
// a subtest did. A package that ended before its tests, or did not compile, or
// failed for no test of it, is named by an empty string.
func (p *packageResult) failures() []string {
	var names []string
	whole := false
	for _, name := range slices.Sorted(maps.Keys(p.Tests)) {
		switch p.Tests[name] {
		case unfinished:
			whole = true
		case failed:
			names = append(names, name)
		}
	}
	if p.Outcome != failed {
		return nil
	}
	if whole || len(names) == 0 {
		return []string{""}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// count returns how many tests, subtests included, have an outcome.
func (p *packageResult) count(of ...outcome) int {
	n := 0
	for _, is := range p.Tests {
		if slices.Contains(of, is) {
			n++
		}
	}
	return n
}

// tail returns the end of what a test wrote.
func (p *packageResult) tail(test string, lines int) string {
	text := strings.Join(p.Output[test], "")
	if text == "" {
		text = strings.Join(p.Output[""], "")
	}
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// judgeStream judges the packages of stream; alone says what passes when it is
// run again, as "tree package test".
func judgeStream(t *testing.T, baseline []known, alone ...string) (string, []string) {
	t.Helper()
	results := read(t)
	var ordered []*packageResult
	for _, path := range slices.Sorted(maps.Keys(results)) {
		ordered = append(ordered, results[path])
	}
	var ran []string
	judged, err := judge(context.Background(), ordered, baseline, Trees{Stock: "stock", Ours: "ours"},
		func(_ context.Context, tree, pkg, test string) (*packageResult, error) {
			name := fmt.Sprintf("%s %s %s", tree, strings.TrimPrefix(pkg, modulePath), test)
			ran = append(ran, name)
			p := &packageResult{Outcome: failed, Tests: map[string]outcome{}}
			if slices.Contains(alone, name) {
				p.Outcome = passed
				if test != "TestNotFound" {
					p.Tests[test] = passed
				}
			}
			return p, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, j := range judged {
		lines = append(lines, j.String())
	}
	return strings.Join(lines, "\n"), ran
}

func TestJudge(t *testing.T) {
	baseline := []known{{modulePath + "sub", "TestC", "why"}}
	got, ran := judgeStream(t, baseline, "ours main ", "stock broken ")
	want := `broken (the whole package): FAILS with podslice only
main (the whole package): failed once, passed alone
panics (the whole package): fails without podslice too
sub TestC/two: known`
	if got != want {
		t.Errorf("verdicts\n%s\nwant\n%s", got, want)
	}
	if want := []string{"ours broken ", "stock broken ", "ours main ", "ours panics ", "stock panics "}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

// A test that is not found when it is run alone has not passed.
func TestPasses(t *testing.T) {
	p := &packageResult{Outcome: passed, Tests: map[string]outcome{"TestA": passed, "TestB": skipped}}
	for test, want := range map[string]bool{"TestA": true, "TestB": false, "TestC": false, "": true} {
		if got := p.passes(test); got != want {
			t.Errorf("%q: %v, want %v", test, got, want)
		}
	}
}

func TestRunPattern(t *testing.T) {
	if got, want := runPattern("TestA/a_(b)/c"), `^TestA$/^a_\(b\)$/^c$`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReport(t *testing.T) {
	r := Report{Packages: 2, Tests: 10, Judged: []judged{{Verdict: isKnown}, {Verdict: isFlake}, {Verdict: isUpstreams}}, Steps: []string{"windows"}}
	if got, want := r.Summary(), "passed: 2 packages, 10 tests; 1 known to fail without it; 1 fail without it too and are not in the baseline; 1 failed once and passed alone; compiled: windows"; got != want || !r.Passed() {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	r.Broken = []string{"arm64"}
	if got := r.Summary(); !strings.HasPrefix(got, "FAILED: ") || !strings.HasSuffix(got, "DO NOT COMPILE: arm64") || r.Passed() {
		t.Error(got)
	}
	r = Report{Judged: []judged{{Verdict: isOurs}}}
	if got := r.Summary(); !strings.HasPrefix(got, "FAILED: 0 packages, 0 tests; 1 FAIL with podslice only") || r.Passed() {
		t.Error(got)
	}
}

func TestBaseline(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, filepath.FromSlash(baselineDir))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, have, err := readBaseline(root, "v1.37.9"); have || err != nil {
		t.Errorf("no file: %v, %v", have, err)
	}
	text := "# comment\n\nsub TestC needs a device\npass TestA does not fail at all\npass TestB skipped here\n"
	if err := os.WriteFile(filepath.Join(dir, "v1.37.9.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	baseline, have, err := readBaseline(root, "v1.37.9")
	if err != nil || !have || len(baseline) != 3 || baseline[0] != (known{modulePath + "sub", "TestC", "needs a device"}) {
		t.Fatalf("%+v, %v, %v", baseline, have, err)
	}
	if got := stale(baseline, read(t)); len(got) != 1 || got[0].Test != "TestA" {
		t.Errorf("stale %+v, want TestA", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "v1.37.9.txt"), []byte("sub TestC\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readBaseline(root, "v1.37.9"); err == nil {
		t.Error("an entry without a reason: want an error")
	}
}

// The baselines in the repository can be read, and the release of go.mod has one.
func TestCommittedBaselines(t *testing.T) {
	gomod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("baseline/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	have := false
	for _, file := range files {
		kube := strings.TrimSuffix(filepath.Base(file), ".txt")
		have = have || strings.Contains(string(gomod), "\tk8s.io/kubernetes "+kube+"\n")
		if _, _, err := readBaseline("../../..", kube); err != nil {
			t.Error(err)
		}
	}
	if !have {
		t.Errorf("no baseline of the release in go.mod among %q", files)
	}
}

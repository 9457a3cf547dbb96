// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Trees are two checkouts of one release: as upstream has it, and with ours in
// it.
type Trees struct {
	Stock, Ours string
}

// Options say what is to be run.
type Options struct {
	Root     string // this repository, for its baselines
	Kube     string // the release
	Trees    Trees
	Packages string // patterns, separated by blanks; empty for all that use ours
	Steps    []Step
	Out      io.Writer
}

// Report is what came of it.
type Report struct {
	Packages, Tests int
	Judged          []judged
	Stale           []known
	Steps           []string // which steps were done beside the tests
	Broken          []string // steps that failed
}

// Run runs the tests and the other steps, and prints as it goes. Failures are in
// the report; an error means that it could not be found out.
func Run(ctx context.Context, o Options) (*Report, error) {
	baseline, have, err := readBaseline(o.Root, o.Kube)
	if err != nil {
		return nil, err
	}
	if !have {
		fmt.Fprintf(o.Out, "upstream: %s has no baseline of known failures in %s\n", o.Kube, baselineDir)
	}
	report := &Report{}
	pkgs, err := testable(ctx, o.Trees.Ours, patterns(o.Packages))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(o.Out, "upstream: the tests of %d packages of Kubernetes %s, with our packages in it\n", len(pkgs), o.Kube)
	started := time.Now()
	results, err := goTest(ctx, o.Trees.Ours, func(p *packageResult) {
		fmt.Fprintf(o.Out, "  %6s  %s: %s\n", time.Since(started).Round(time.Second), strings.TrimPrefix(p.Path, modulePath), p.Outcome)
	}, pkgs...)
	if err != nil {
		return nil, err
	}
	ordered := make([]*packageResult, 0, len(results))
	for _, path := range slices.Sorted(maps.Keys(results)) {
		ordered = append(ordered, results[path])
		report.Packages++
		report.Tests += results[path].count(passed, failed, skipped, unfinished)
	}
	if report.Judged, err = judge(ctx, ordered, baseline, o.Trees, runAlone); err != nil {
		return nil, err
	}
	report.Stale = stale(baseline, results)
	table(o.Out, ordered)
	for _, step := range o.Steps {
		if err := step.run(ctx, o); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			fmt.Fprintf(o.Out, "upstream: %s: FAILED\n%v\n", step.Name, err)
			report.Broken = append(report.Broken, step.Name)
			continue
		}
		report.Steps = append(report.Steps, step.Name)
	}
	report.explain(o.Out)
	return report, nil
}

// table prints a line for each package.
func table(w io.Writer, results []*packageResult) {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "package\ttests\tskipped\tfailed\ttime\t")
	for _, p := range results {
		took := fmt.Sprintf("%.1f s", p.Seconds)
		if p.Cached {
			took = "cached"
		}
		mark := ""
		if p.Outcome == failed {
			mark = "see below"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\n", strings.TrimPrefix(p.Path, modulePath),
			p.count(passed, failed, skipped, unfinished), p.count(skipped), p.count(failed, unfinished), took, mark)
	}
	t.Flush()
	fmt.Fprintln(w)
}

// explain prints every failure with whose it is.
func (r *Report) explain(w io.Writer) {
	for _, j := range r.Judged {
		fmt.Fprintf(w, "upstream: %s\n", j)
		if j.Detail != "" {
			fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(j.Detail, "\n", "\n    "))
		}
	}
	for _, k := range r.Stale {
		fmt.Fprintf(w, "upstream: %s %s passes, and the baseline says it fails: %s\n", strings.TrimPrefix(k.Package, modulePath), k.Test, k.Reason)
	}
}

// count returns how many failures got a verdict.
func (r *Report) count(v verdict) int {
	n := 0
	for _, j := range r.Judged {
		if j.Verdict == v {
			n++
		}
	}
	return n
}

// Passed says whether nothing speaks against our packages.
func (r *Report) Passed() bool {
	return r.count(isOurs) == 0 && len(r.Broken) == 0
}

// Summary is the closing line.
func (r *Report) Summary() string {
	parts := []string{fmt.Sprintf("%d packages, %d tests", r.Packages, r.Tests)}
	for _, v := range []struct {
		verdict verdict
		text    string
	}{
		{isOurs, "%d FAIL with podslice only"},
		{isKnown, "%d known to fail without it"},
		{isUpstreams, "%d fail without it too and are not in the baseline"},
		{isFlake, "%d failed once and passed alone"},
	} {
		if n := r.count(v.verdict); n > 0 {
			parts = append(parts, fmt.Sprintf(v.text, n))
		}
	}
	if len(r.Stale) > 0 {
		parts = append(parts, fmt.Sprintf("%d of the baseline pass", len(r.Stale)))
	}
	if len(r.Steps) > 0 {
		parts = append(parts, "compiled: "+strings.Join(r.Steps, ", "))
	}
	if len(r.Broken) > 0 {
		parts = append(parts, "DO NOT COMPILE: "+strings.Join(r.Broken, ", "))
	}
	word := "passed"
	if !r.Passed() {
		word = "FAILED"
	}
	return word + ": " + strings.Join(parts, "; ")
}

// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// verdict is whose a failure is.
type verdict string

const (
	isOurs      verdict = "FAILS with podslice only"
	isUpstreams verdict = "fails without podslice too"
	isFlake     verdict = "failed once, passed alone"
	isKnown     verdict = "known"
)

// judged is a failure and whose it is.
type judged struct {
	Package string
	Test    string // empty for a whole package
	Verdict verdict
	Detail  string // the reason of a known one, the output of one of ours
}

func (j judged) String() string {
	name := strings.TrimPrefix(j.Package, modulePath)
	if j.Test != "" {
		name += " " + j.Test
	} else {
		name += " (the whole package)"
	}
	return fmt.Sprintf("%s: %s", name, j.Verdict)
}

// rerun runs one test by itself in a tree, or a whole package for an empty name.
type rerun func(ctx context.Context, tree, pkg, test string) (*packageResult, error)

// judge says whose each failure is. One that is known is not run again.
func judge(ctx context.Context, results []*packageResult, baseline []known, trees Trees, again rerun) ([]judged, error) {
	var out []judged
	for _, p := range results {
	failures:
		for _, test := range p.failures() {
			for _, k := range baseline {
				if k.covers(p.Path, test) {
					out = append(out, judged{p.Path, test, isKnown, k.Reason})
					continue failures
				}
			}
			alone, err := again(ctx, trees.Ours, p.Path, test)
			if err != nil {
				return out, err
			}
			if alone.passes(test) {
				out = append(out, judged{p.Path, test, isFlake, ""})
				continue
			}
			stock, err := again(ctx, trees.Stock, p.Path, test)
			if err != nil {
				return out, err
			}
			j := judged{p.Path, test, isUpstreams, alone.tail(test, 40)}
			if stock.passes(test) {
				j.Verdict = isOurs
			}
			out = append(out, j)
		}
	}
	return out, nil
}

// passes says whether a test ran and passed. A test that was not even found has
// not passed.
func (p *packageResult) passes(test string) bool {
	if test == "" {
		return p.Outcome == passed
	}
	return p.Outcome == passed && p.Tests[test] == passed
}

// runPattern selects one test for go test -run.
func runPattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

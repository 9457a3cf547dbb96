// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// baselineDir holds the baselines in this repository, one file a release.
const baselineDir = "hack/kubetree/upstream/baseline"

// known is a test that fails on upstream's own tree, too.
type known struct {
	Package string // import path
	Test    string // a test, or a subtest by its full name
	Reason  string
}

// covers says whether a failure is this one: the test itself or a subtest of it.
func (k known) covers(pkg, test string) bool {
	return k.Package == pkg && (k.Test == test || strings.HasPrefix(test, k.Test+"/"))
}

// readBaseline returns what is known to fail on a release, and whether anybody
// has ever looked: a release without a file has none.
func readBaseline(root, kube string) ([]known, bool, error) {
	path := filepath.Join(root, filepath.FromSlash(baselineDir), kube+".txt")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var out []known
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, false, fmt.Errorf("%s:%d: want a package, a test and the reason", path, i+1)
		}
		out = append(out, known{Package: modulePath + fields[0], Test: fields[1], Reason: strings.Join(fields[2:], " ")})
	}
	return out, true, nil
}

// stale returns the entries that cover a test that ran and nothing of which
// failed: upstream has mended it, or the machine is another one.
func stale(baseline []known, results map[string]*packageResult) []known {
	var out []known
	for _, k := range baseline {
		p := results[k.Package]
		if p == nil || p.Tests[k.Test] != passed {
			continue
		}
		if !slices.ContainsFunc(p.failures(), func(test string) bool { return test == "" || k.covers(k.Package, test) }) {
			out = append(out, k)
		}
	}
	return out
}

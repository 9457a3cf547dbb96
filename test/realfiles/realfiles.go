// SPDX-License-Identifier: Apache-2.0

// Package realfiles has the state files that kubelets of other releases, and
// podslice, have written for test/upgrade: a corpus for whoever reads such files.
package realfiles

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// Texts returns the distinct texts of the files of that name, from every release,
// setting and case.
func Texts(tb testing.TB, name string) []string {
	tb.Helper()
	_, here, _, _ := runtime.Caller(0)
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(here), "..", "upgrade", "testdata", "*", "gate-*.json"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no state files: %v", err)
	}
	var texts []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		var cases map[string]map[string]json.RawMessage
		if err := json.Unmarshal(text, &cases); err != nil {
			tb.Fatalf("%s: %v", path, err)
		}
		for of, files := range cases {
			var file string
			if err := json.Unmarshal(files[name], &file); err != nil {
				tb.Fatalf("%s, case %s: %v", path, of, err)
			}
			texts = append(texts, file)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

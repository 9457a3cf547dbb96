// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStandardInput: what takes a file takes "-", too.
func TestStandardInput(t *testing.T) {
	home, err := os.Getwd()
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"pods.yaml": "kind: Pod\napiVersion: v1\nmetadata: {name: web}\nspec: {containers: [{name: web}]}\n",
		"m.json":    machineOfCorpus, "config.yaml": configOfCorpus,
	} {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	require.NoError(t, writeCase(filepath.Join(home, corpus), "podslice gate-on-container containers", "state"))
	for _, line := range []string{
		"machine --machine m.json -o json", "validate --config config.yaml --machine m.json", "plan -f pods.yaml --machine m.json --config config.yaml",
		"state verify state --machine m.json --config config.yaml",
	} {
		var want bytes.Buffer
		code := run(words(line), &want, &want)
		require.NotEqual(t, usage, code, want.String())
		for _, file := range []string{"pods.yaml", "m.json", "config.yaml"} {
			if !strings.Contains(line, file) {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var out bytes.Buffer
			root := newRoot()
			root.SetIn(bytes.NewReader(text))
			got := runRoot(root, words(strings.Replace(line, file, "-", 1)), &out, &out)
			require.Equal(t, code, got, "%s, %s from standard input: %s", line, file, out.String())
		}
	}
}

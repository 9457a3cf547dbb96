// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// corpus is the state files of several releases.
const corpus = "../../test/upgrade/testdata"

// TestScripts runs the scripts in testdata, in a folder of their own: "files DIR"
// writes the state files of a case of the corpus there, "edit FILE" replaces text
// in a file, "write FILE" writes one, "cat FILE" prints one, "ls DIR" lists a
// folder, "run" runs command lines and tells what they print and their exit code.
func TestScripts(t *testing.T) {
	home, err := os.Getwd()
	require.NoError(t, err)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		dir := t.TempDir()
		t.Chdir(dir)
		datadriven.RunTest(t, filepath.Join(home, path), func(t *testing.T, d *datadriven.TestData) string {
			out, err := script(home, d)
			if err != nil {
				t.Fatalf("%s: %v", d.Pos, err)
			}
			return strings.ReplaceAll(out, dir, "DIR")
		})
		t.Chdir(home)
	})
}

// rewriting is whether datadriven's flag -rewrite is set.
func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

func script(home string, d *datadriven.TestData) (string, error) {
	var arg string
	if len(d.CmdArgs) > 0 {
		arg = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "files":
		return "", writeCase(filepath.Join(home, corpus), strings.TrimSpace(d.Input), arg)
	case "edit":
		text, err := os.ReadFile(arg)
		if err != nil {
			return "", err
		}
		for _, line := range strings.Split(d.Input, "\n") {
			old, new, ok := strings.Cut(line, " -> ")
			if !ok || !bytes.Contains(text, []byte(old)) {
				return "", fmt.Errorf("%s has no %q", arg, old)
			}
			text = bytes.ReplaceAll(text, []byte(old), []byte(new))
		}
		return "", put(arg, text)
	case "write":
		return "", put(arg, []byte(d.Input))
	case "cat":
		text, err := os.ReadFile(arg)
		return string(text) + "\n", err
	case "ls":
		entries, err := os.ReadDir(arg)
		var out strings.Builder
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				return "", err
			}
			fmt.Fprintln(&out, info.Mode(), e.Name())
		}
		return out.String(), err
	case "run":
		var all strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			var out bytes.Buffer
			code := run(strings.Fields(strings.TrimPrefix(line, "podslice ")), &out, &out)
			all.Write(out.Bytes())
			fmt.Fprintf(&all, "exit code %d\n", code)
		}
		return all.String(), nil
	}
	return "", fmt.Errorf("no command %q", d.Cmd)
}

// lastWritten is when every file of a script was written.
var lastWritten = time.Date(2026, 11, 30, 2, 15, 0, 0, time.UTC)

// put writes a file, which others may read, as an operator's copy may be.
func put(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	return os.Chtimes(path, lastWritten, lastWritten)
}

// writeCase writes the state files of a case, which is "writer setting case".
func writeCase(corpus, name, dir string) error {
	f := strings.Fields(name)
	if len(f) != 3 {
		return fmt.Errorf("%q: want writer, setting and case", name)
	}
	text, err := os.ReadFile(filepath.Join(corpus, f[0], f[1]+".json"))
	if err != nil {
		return err
	}
	all := map[string]map[string]any{}
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for _, file := range []string{"cpu_manager_state", "memory_manager_state"} {
		content, ok := all[f[2]][file].(string)
		if !ok {
			return fmt.Errorf("there is no case %q", f[2])
		}
		if err := put(filepath.Join(dir, file), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// TestLinksNoKubelet is why this builds in seconds.
func TestLinksNoKubelet(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "github.com/podslice/podslice/pkg/state\n")
	for _, name := range strings.Fields(string(out)) {
		require.False(t, name == "k8s.io/kubernetes" || strings.HasPrefix(name, "k8s.io/kubernetes/"), name)
	}
}

// TestKubernetesVersion: the version that is printed is that of go.mod.
func TestKubernetesVersion(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(text), "\tk8s.io/kubernetes "+kubernetes+"\n")
}

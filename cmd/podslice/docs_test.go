// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/state"
)

// commands lists the command and all below it, but not what cobra adds.
func commands(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			list = append(list, commands(sub)...)
		}
	}
	return list
}

// TestDocument holds docs/cli.md and the commands together. With -rewrite it writes
// the parts that come from the commands.
func TestDocument(t *testing.T) {
	var text, rules strings.Builder
	for _, cmd := range commands(newRoot()) {
		long := cmd.Long
		if long == "" {
			long = cmd.Short + "."
		}
		fmt.Fprintf(&text, "### %s\n\n%s\n\n", cmd.CommandPath(), long)
		if cmd.Runnable() && !cmd.HasSubCommands() {
			fmt.Fprintf(&text, "    %s\n\n", cmd.UseLine())
		}
		fmt.Fprintf(&text, "Examples:\n\n")
		for _, line := range examples(cmd) {
			fmt.Fprintf(&text, "    %s\n", line)
		}
		text.WriteString("\n")
		if usages := cmd.LocalFlags().FlagUsages(); usages != "" {
			fmt.Fprintf(&text, "Flags:\n\n")
			for _, line := range strings.Split(strings.TrimRight(usages, "\n"), "\n") {
				fmt.Fprintf(&text, "  %s\n", strings.TrimRight(line, " "))
			}
			text.WriteString("\n")
		}
	}
	rules.WriteString("| rule | is | what it means |\n|---|---|---|\n")
	for _, m := range state.Meanings {
		fmt.Fprintf(&rules, "| `%s` | %s | %s |\n", m.Rule, m.Severity, m.Meaning)
	}
	const path = "../../docs/cli.md"
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	is := between(t, between(t, string(was), "rules", rules.String()), "commands", text.String())
	if rewriting() {
		require.NoError(t, os.WriteFile(path, []byte(is), 0o666))
		return
	}
	require.Equal(t, string(was), is, "docs/cli.md is not what the commands say; run this test with -rewrite")
}

func between(t *testing.T, document, name, text string) string {
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(document, begin)
	require.True(t, ok, begin)
	_, after, ok := strings.Cut(rest, end)
	require.True(t, ok, end)
	return before + begin + text + end + after
}

func examples(cmd *cobra.Command) (lines []string) {
	for _, line := range strings.Split(cmd.Example, "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// TestExamples runs every example of every command, each in a folder of its own,
// on files with nothing wrong. Each must succeed and say something.
func TestExamples(t *testing.T) {
	home, err := os.Getwd()
	require.NoError(t, err)
	from := filepath.Join(home, corpus)
	const writer = "podslice gate-on-container containers"
	run1 := func(t *testing.T, line string) string {
		dir := t.TempDir()
		t.Chdir(dir)
		defer t.Chdir(home)
		was := stateDir
		stateDir = filepath.Join(dir, "kubelet")
		defer func() { stateDir = was }()
		for _, into := range []string{"kubelet", "yesterday", "today", "."} {
			require.NoError(t, writeCase(from, writer, into))
		}
		require.NoError(t, os.WriteFile("machine.json", []byte(machineOfCorpus), 0o600))
		require.NoError(t, os.WriteFile("config.yaml", []byte(configOfCorpus), 0o600))
		var out bytes.Buffer
		args := strings.Fields(strings.ReplaceAll(line, was, stateDir))
		require.Equal(t, "podslice", args[0])
		require.Equal(t, fine, run(args[1:], &out, &out), "%s: %s", line, out.String())
		require.NotEmpty(t, out.String(), line)
		return out.String()
	}
	for _, cmd := range commands(newRoot()) {
		require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		for _, line := range examples(cmd) {
			run1(t, line)
		}
		require.Contains(t, run1(t, cmd.CommandPath()+" --help"), examples(cmd)[0])
	}
	require.Contains(t, run1(t, "podslice completion bash"), "podslice")
}

// The machine and the configuration of the corpus. JSON is YAML.
const machineOfCorpus = `{"name": "corpus", "nodes": [
	{"id": 0, "memory": "16Gi", "hugepages": {"2Mi": 1024}},
	{"id": 1, "memory": "16Gi", "hugepages": {"2Mi": 1024}}],
	"cpus": [
	{"cpus": "0-3,8-11", "threads": 2, "siblings": "apart", "socket": 0, "node": 0, "cache": 0},
	{"cpus": "4-7,12-15", "threads": 2, "siblings": "apart", "socket": 1, "node": 1, "cache": 1}]}`

const configOfCorpus = `
kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
featureGates: {PodLevelResourceManagers: true}
cpuManagerPolicy: static
memoryManagerPolicy: Static
reservedSystemCPUs: 0,8
reservedMemory:
- {numaNode: 0, limits: {memory: 1Gi}}
`

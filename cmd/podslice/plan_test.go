// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/plan"
)

// TestPlugin: called as a plugin of kubectl, help says so.
func TestPlugin(t *testing.T) {
	help := func() string {
		var out bytes.Buffer
		require.Equal(t, fine, run([]string{"plan", "--help"}, &out, &out))
		return out.String()
	}
	require.Contains(t, help(), "\n  podslice plan -f FILE... [flags]\n")
	was := invokedAs
	defer func() { invokedAs = was }()
	invokedAs = "/usr/local/bin/kubectl-podslice"
	require.Contains(t, help(), "\n  kubectl podslice plan -f FILE... [flags]\n")
}

// TestProgress: nothing is said in the first second, then how far the plan is, and
// the line is gone in the end.
func TestProgress(t *testing.T) {
	clock := time.Unix(0, 0)
	var out bytes.Buffer
	p := &progress{out: &out, now: func() time.Time { return clock }, begin: clock}
	p.at(1, 10)
	require.Empty(t, out.String())
	clock = clock.Add(1100 * time.Millisecond)
	p.at(5, 10)
	p.at(6, 10)
	require.Equal(t, "\rpodslice: 5 of 10 pods", out.String())
	p.end()
	require.True(t, strings.HasSuffix(out.String(), " \r"))

	quiet := newProgress(&out) // no terminal
	quiet.at(1, 2)
	quiet.end()
	require.Nil(t, quiet.out)
}

// TestColors: colours are only added, and only where they are wanted.
func TestColors(t *testing.T) {
	var plainText, colored bytes.Buffer
	r := plan.Report{Pods: []plan.PodReport{{Namespace: "a", Name: "b", Reason: "OutOfcpu", Message: "none left"}}}
	planRows(r, false).write(&plainText, painter{})
	planRows(r, false).write(&colored, painter{on: true})
	require.NotContains(t, plainText.String(), "\x1b")
	require.Contains(t, colored.String(), "\x1b[31ma/b")
	stripped := colored.String()
	for _, code := range []string{"\x1b[31m", "\x1b[1m", "\x1b[0m"} {
		stripped = strings.ReplaceAll(stripped, code, "")
	}
	require.Equal(t, plainText.String(), stripped)
}

func TestLetters(t *testing.T) {
	for i, want := range map[int]string{0: "A", 25: "Z", 26: "AA", 51: "AZ", 52: "BA", 701: "ZZ", 702: "AAA"} {
		require.Equal(t, want, letters(i))
	}
}

// TestMarks: of parts that have the same CPUs, the first is marked.
func TestMarks(t *testing.T) {
	m := marks{of: map[int]string{}, pod: map[int]int{}}
	m.add("default/a", []cpuPart{{"a", "container app", cpuplan.NewSet(1, 2)}, {"b", "init container init", cpuplan.NewSet(2, 3)}})
	m.add("default/b", []cpuPart{{"a", "container app", cpuplan.NewSet(4)}})
	require.Equal(t, map[int]string{1: "Aa", 2: "Aa", 3: "Ab", 4: "B"}, m.of)
	require.Equal(t, []string{"A  default/a", "  Aa  container app: 1-2", "  Ab  init container init: 2-3", "B  default/b, container app: 4"}, m.legend)
}

// TestDocumentPlan holds the example in docs/cli.md. With -rewrite it writes it.
func TestDocumentPlan(t *testing.T) {
	const line = "podslice plan -f tightly-coupled-database.yaml --config kubelet-config.yaml --machine amd-epyc-9654-nps4 --explain"
	home, err := os.Getwd()
	require.NoError(t, err)
	t.Chdir("../../docs/examples")
	var out, notes bytes.Buffer
	require.Equal(t, fine, run(strings.Fields(line)[1:], &out, &notes), notes.String())
	t.Chdir(home)
	text := "```\n$ " + line + "\n" + out.String() + "```\n"
	const path = "../../docs/cli.md"
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	is := between(t, string(was), "plan", text)
	if rewriting() {
		require.NoError(t, os.WriteFile(path, []byte(is), 0o666))
		return
	}
	require.Equal(t, string(was), is, "docs/cli.md is not what podslice plan says; run this test with -rewrite")
}

// full is a disk that is.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestPlanNotWritten: a plan that nobody could read is an error in every format.
func TestPlanNotWritten(t *testing.T) {
	pods := t.TempDir() + "/pods.yaml"
	require.NoError(t, os.WriteFile(pods, []byte("{kind: Pod, apiVersion: v1, metadata: {name: a}, spec: {containers: [{name: a}]}}"), 0o666))
	for _, format := range planFormats {
		var notes bytes.Buffer
		require.Equal(t, usage, run([]string{"plan", "-f", pods, "--machine", "kvm-4", "-o", format}, full{}, &notes), format)
		require.Contains(t, notes.String(), "podslice: no space left", format)
	}
}

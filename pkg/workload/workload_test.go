// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// describe writes the workload, or what is wrong with it.
func describe(w Workload, err error) string {
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	var b strings.Builder
	for _, p := range w.Pods {
		fmt.Fprintf(&b, "%s/%s from %s\n", p.Namespace, p.Name, p.From)
		if !p.MadeUID {
			fmt.Fprintf(&b, "  uid %s\n", p.UID)
		}
		for _, text := range p.Defaulted {
			fmt.Fprintf(&b, "  %s\n", text)
		}
		if p.Spec.Resources != nil {
			fmt.Fprintf(&b, "  budget %s\n", amounts(*p.Spec.Resources))
		}
		for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for _, c := range list {
				fmt.Fprintf(&b, "  %s %s\n", c.Name, amounts(c.Resources))
			}
		}
	}
	for _, note := range w.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

func amounts(r v1.ResourceRequirements) string {
	list := func(l v1.ResourceList) string {
		var parts []string
		for name, q := range l {
			parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
		}
		slices.Sort(parts)
		return strings.Join(parts, " ")
	}
	return fmt.Sprintf("requests {%s} limits {%s}", list(r.Requests), list(r.Limits))
}

// TestScripts reads manifests; see testdata. -rewrite writes what is the case now.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			input := strings.ReplaceAll(d.Input, "|---", "---") // what datadriven takes for its own
			return describe(Read([]string{"-"}, strings.NewReader(input), Options{Strict: d.HasArg("strict")}))
		})
	})
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: a}]}\n"
	one, two := write("one.yaml", fmt.Sprintf(pod, "one")), write("two.yaml", fmt.Sprintf(pod, "two"))
	w, err := Read([]string{two, "-", one}, strings.NewReader(fmt.Sprintf(pod, "three")), Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"two", "three", "one"}, []string{w.Pods[0].Name, w.Pods[1].Name, w.Pods[2].Name})
	require.Equal(t, "standard input, document 1 (line 1), Pod default/three", w.Pods[1].From.String())

	_, err = Read([]string{one, one}, nil, Options{})
	require.ErrorContains(t, err, "a pod has the name default/one already: "+one+", document 1")
	_, err = Read([]string{filepath.Join(dir, "none")}, nil, Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	write("README.md", "not a manifest")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "more.yaml"), 0o700))
	w, err = Read([]string{dir}, nil, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, []string{w.Pods[0].Name, w.Pods[1].Name})
	require.Equal(t, two, w.Pods[1].From.File)
	_, err = Read([]string{dir, one}, nil, Options{})
	require.ErrorContains(t, err, "a pod has the name default/one already: "+one+", document 1")
	_, err = Read([]string{filepath.Join(dir, "more.yaml")}, nil, Options{})
	require.ErrorContains(t, err, "has no file whose name ends in .json, .yaml, .yml")
	_, err = Read([]string{write("large", strings.Repeat("#", maxFile+1))}, nil, Options{})
	require.ErrorContains(t, err, "is larger than the 33554432 bytes")
	_, err = Read([]string{write("many", strings.Repeat("---\nkind: Service\n", maxDocuments+1))}, nil, Options{})
	require.ErrorContains(t, err, "more than the 20000 documents")
	_, err = Read([]string{write("wide", "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: 2000000000, template: {spec: {containers: [{name: a}]}}}")}, nil, Options{})
	require.ErrorContains(t, err, "its 2000000000 pods would be more than the 20000 that are planned for in all; there are 0 already")
	list := `{"kind":"Pod"}`
	for range 6 {
		list = `{"kind":"List","items":[` + list + `]}`
	}
	_, err = Read([]string{write("deep", list)}, nil, Options{})
	require.ErrorContains(t, err, "it is a list in 4 others")
	_, err = Read([]string{write("bomb", "a: &a ["+strings.Repeat("x,", 1000)+"]\nb: &b ["+strings.Repeat("*a,", 1000)+"]\nc: ["+strings.Repeat("*b,", 1000)+"]\n")}, nil, Options{})
	require.Error(t, err)
}

// FuzzRead: whatever the manifests are, reading them ends, and what is read could
// be planned.
func FuzzRead(f *testing.F) {
	for _, path := range []string{"testdata/kinds", "testdata/defaults", "testdata/errors", "testdata/documents"} {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		for _, part := range bytes.Split(text, []byte("\n\n")) {
			_, input, _ := bytes.Cut(part, []byte("\n"))
			input, _, _ = bytes.Cut(input, []byte("\n----"))
			f.Add(bytes.ReplaceAll(input, []byte("|---"), []byte("---")), true)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, strict bool) {
		w, err := Read([]string{"-"}, bytes.NewReader(text), Options{Strict: strict})
		if err != nil {
			require.Empty(t, w.Pods)
			return
		}
		for _, p := range w.Pods {
			require.NotEmpty(t, p.Name)
			require.NotEmpty(t, p.UID)
			require.NoError(t, Check(p.Pod))
			require.Empty(t, Default(p.Pod.DeepCopy()), "defaults are added once")
		}
	})
}

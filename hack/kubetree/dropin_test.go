// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write puts files into a folder; the content of most does not matter.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// listing returns the files beneath pkg/kubelet/cm, one a line.
func listing(t *testing.T, tree string) string {
	t.Helper()
	var out []string
	base := filepath.Join(tree, filepath.FromSlash(cmDir))
	err := filepath.WalkDir(base, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(base, path)
			out = append(out, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

func upstreamTree(t *testing.T) string {
	tree := t.TempDir()
	write(t, tree, map[string]string{
		"cmd/kubelet/kubelet.go":                                  "package main\n",
		"pkg/kubelet/cm/container_manager.go":                     "package cm\n",
		"pkg/kubelet/cm/util/util.go":                             "package util\n",
		"pkg/kubelet/cm/cpumanager/cpu_manager.go":                "package cpumanager\n",
		"pkg/kubelet/cm/cpumanager/old/old.go":                    "package old\n",
		"pkg/kubelet/cm/memorymanager/memory_manager.go":          "package memorymanager\n",
		"pkg/kubelet/cm/topologymanager/bitmask/bitmask.go":       "package bitmask\n",
		"pkg/kubelet/cm/topologymanager/topology_manager.go":      "package topologymanager\n",
		"pkg/kubelet/cm/topologymanager/topology_manager_test.go": "package topologymanager\n",
	})
	return tree
}

var ours = map[string]string{
	"pkg/kubelet/cm/cpumanager/manager.go":              "package cpumanager\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/podslice/podslice/pkg/kubelet/cm/numa\"\n\t\"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state\"\n)\n\nvar _ = fmt.Sprint(numa.A, state.B, \"github.com/podslice/podslice/pkg/kubelet/cm/numa\")\n",
	"pkg/kubelet/cm/cpumanager/manager_test.go":         "package cpumanager\n",
	"pkg/kubelet/cm/cpumanager/testdata/golden":         "x\n",
	"pkg/kubelet/cm/cpumanager/state/state.go":          "package state\n\nvar B int\n",
	"pkg/kubelet/cm/cpumanager/state/testing/helper.go": "package testing\n",
	"pkg/kubelet/cm/memorymanager/manager.go":           "package memorymanager\n",
	"pkg/kubelet/cm/topologymanager/manager.go":         "package topologymanager\n",
	"pkg/kubelet/cm/numa/set.go":                        "package numa\n\nvar A int\n",
}

func load(t *testing.T, files map[string]string) Packages {
	t.Helper()
	root := t.TempDir()
	write(t, root, files)
	pkgs, err := LoadPackages(root)
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

func TestDropIn(t *testing.T) {
	tree := upstreamTree(t)
	if _, err := DropIn(tree, load(t, ours)); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(`
.podslice-packages
container_manager.go
cpumanager/manager.go
cpumanager/state/state.go
cpumanager/state/testing/helper.go
memorymanager/manager.go
numa/set.go
topologymanager/manager.go
util/util.go`)
	if got := listing(t, tree); got != want {
		t.Errorf("tree has\n%s\nwant\n%s", got, want)
	}
	data, err := os.ReadFile(filepath.Join(tree, "pkg/kubelet/cm/cpumanager/manager.go"))
	if err != nil {
		t.Fatal(err)
	}
	wantFile := `package cpumanager

import (
	"fmt"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/numa"
)

var _ = fmt.Sprint(numa.A, state.B, "github.com/podslice/podslice/pkg/kubelet/cm/numa")
`
	if string(data) != wantFile {
		t.Errorf("imports were rewritten to\n%s\nwant\n%s", data, wantFile)
	}

	if n, err := DropIn(tree, load(t, ours)); n != 0 || err != nil {
		t.Errorf("a second time: %d files changed, error %v; want none", n, err)
	}
}

// A package of ours that is renamed leaves nothing behind, and its new name is
// not taken for upstream's.
func TestDropInAgainWithOtherPackages(t *testing.T) {
	tree := upstreamTree(t)
	if _, err := DropIn(tree, load(t, ours)); err != nil {
		t.Fatal(err)
	}
	renamed := map[string]string{}
	for name, content := range ours {
		renamed[strings.Replace(name, "cm/numa/", "cm/nodes/", 1)] = strings.ReplaceAll(content, "cm/numa", "cm/nodes")
	}
	n, err := DropIn(tree, load(t, renamed))
	if err != nil {
		t.Fatal(err)
	}
	if n != 3 { // numa/set.go gone, nodes/set.go new, manager.go imports it
		t.Errorf("%d files changed, want 3", n)
	}
	if got := listing(t, tree); strings.Contains(got, "numa") || !strings.Contains(got, "nodes/set.go") {
		t.Errorf("tree has\n%s", got)
	}
}

func TestDropInRefuses(t *testing.T) {
	for _, test := range []struct {
		name, want string
		add        map[string]string
		tree       func(t *testing.T) string
	}{
		{"a name of upstream's", "pkg/kubelet/cm/util exists", map[string]string{"pkg/kubelet/cm/util/ours.go": "package util\n"}, upstreamTree},
		{"a folder that is not Kubernetes", "is not a Kubernetes source tree", nil, func(t *testing.T) string { return t.TempDir() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{}
			for _, from := range []map[string]string{ours, test.add} {
				for name, content := range from {
					files[name] = content
				}
			}
			pkgs := load(t, files)
			tree := test.tree(t)
			before := ""
			if test.add != nil {
				before = listing(t, tree)
			}
			if _, err := DropIn(tree, pkgs); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
			if test.add != nil && listing(t, tree) != before {
				t.Error("the tree was changed before the refusal")
			}
		})
	}
}

func TestLoadPackagesRefuses(t *testing.T) {
	for _, test := range []struct{ name, file, content, want string }{
		{"a file of package cm", "pkg/kubelet/cm/extra.go", "package cm\n", "directly in pkg/kubelet/cm"},
		{"an import from elsewhere", "pkg/kubelet/cm/numa/set.go", "package numa\n\nimport _ \"github.com/podslice/podslice/pkg/machine\"\n", "cannot be dropped in"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, map[string]string{test.file: test.content})
			if _, err := LoadPackages(root); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

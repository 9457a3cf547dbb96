// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// upstreamFilesOfTest are a Kubernetes checkout in small.
var upstreamFilesOfTest = map[string]string{
	"go.mod":                                                  "module k8s.io/kubernetes\n\ngo 1.26.0\n",
	versionFile:                                               "package version\n\nvar other = \"2\"\n\nconst (\n\t// Doc.\n\tDefaultKubeBinaryVersion = \"1.37\"\n)\n",
	"cmd/kubelet/kubelet.go":                                  "package main\n",
	"pkg/kubelet/cm/container_manager.go":                     "package cm\n",
	"pkg/kubelet/cm/util/util.go":                             "package util\n",
	"pkg/kubelet/cm/cpumanager/OWNERS":                        "approvers: []\n",
	"pkg/kubelet/cm/cpumanager/cpu_manager.go":                "package cpumanager\n",
	"pkg/kubelet/cm/cpumanager/old/old.go":                    "package old\n",
	"pkg/kubelet/cm/memorymanager/memory_manager.go":          "package memorymanager\n",
	"pkg/kubelet/cm/topologymanager/bitmask/bitmask.go":       "package bitmask\n",
	"pkg/kubelet/cm/topologymanager/topology_manager.go":      "package topologymanager\n",
	"pkg/kubelet/cm/topologymanager/topology_manager_test.go": "package topologymanager\n",
}

// ours is a repository like this one in small.
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

// installed is what a tree's pkg/kubelet/cm holds once ours are in it.
const installed = `.podslice-manifest
container_manager.go
cpumanager/manager.go
cpumanager/state/state.go
cpumanager/state/testing/helper.go
memorymanager/manager.go
numa/set.go
topologymanager/manager.go
util/util.go`

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

// checkout returns a fork's tree and the options that its release goes with.
func checkout(t *testing.T) (string, Options) {
	t.Helper()
	tree, release := t.TempDir(), t.TempDir()
	write(t, tree, upstreamFilesOfTest)
	write(t, release, upstreamFilesOfTest)
	return tree, Options{Version: "0.1.0", Release: "v1.37.2", Upstream: func() (string, error) { return release, nil }}
}

// snapshot returns every file of a tree by path, but for git's own.
func snapshot(t *testing.T, tree string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(tree, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() == ".git" {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		rel, _ := filepath.Rel(tree, path)
		if d.IsDir() {
			// Empty folders count as well.
			if entries, _ := os.ReadDir(path); len(entries) == 0 {
				out[filepath.ToSlash(rel)+"/"] = ""
			}
			return nil
		}
		data, err := os.ReadFile(path)
		out[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// listing returns the files beneath pkg/kubelet/cm, one a line.
func listing(t *testing.T, tree string) string {
	t.Helper()
	return names(snapshot(t, filepath.Join(tree, filepath.FromSlash(CMDir))))
}

func names[V any](files map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(files)), "\n")
}

func mustInstall(t *testing.T, tree string, pkgs Packages, o Options) Result {
	t.Helper()
	done, err := Install(tree, pkgs, o)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// git runs git in a tree, with an identity and nobody's configuration.
func git(t *testing.T, tree string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", tree, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

// gitCheckout is a checkout whose files are committed.
func gitCheckout(t *testing.T) (string, Options) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git command")
	}
	tree, o := checkout(t)
	commit(t, tree)
	return tree, o
}

func commit(t *testing.T, tree string) {
	t.Helper()
	git(t, tree, "init", "-q")
	git(t, tree, "add", "-A")
	git(t, tree, "commit", "-q", "-m", "x")
}

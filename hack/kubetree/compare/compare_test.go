// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podslice/podslice/hack/kubetree/dropin"
)

const importsManager = "package x\n\nimport _ \"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology\"\n"

var old = map[string]string{
	"pkg/kubelet/cm/cpumanager/a.go":             "package cpumanager\n",
	"pkg/kubelet/cm/cpumanager/gone_test.go":     "package cpumanager\n",
	"pkg/kubelet/cm/memorymanager/same.go":       "package memorymanager\n",
	"pkg/kubelet/cm/topologymanager/a.go":        "package topologymanager\n",
	"pkg/kubelet/lifecycle/interfaces.go":        "package lifecycle\n",
	"pkg/kubelet/lifecycle/interfaces_test.go":   "package lifecycle\n",
	"pkg/kubelet/lifecycle/deeper/x.go":          "package deeper\n",
	"pkg/kubelet/cm/container_manager_linux.go":  importsManager,
	"pkg/kubelet/cm/devicemanager/checked.go":    "package devicemanager\n",
	"test/e2e_node/cpu_manager_test.go":          importsManager,
	"pkg/kubelet/nothing_to_do_with_managers.go": "package kubelet\n",

	"pkg/kubelet/kuberuntime/kuberuntime_container_linux.go": "package kuberuntime\n",
}

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReleases(t *testing.T) {
	now := maps.Clone(old)
	for _, name := range []string{
		"pkg/kubelet/cm/cpumanager/a.go", "pkg/kubelet/lifecycle/interfaces.go", "pkg/kubelet/lifecycle/interfaces_test.go",
		"pkg/kubelet/lifecycle/deeper/x.go", "pkg/kubelet/cm/container_manager_linux.go", "pkg/kubelet/nothing_to_do_with_managers.go",
		"pkg/kubelet/kuberuntime/kuberuntime_container_linux.go",
	} {
		now[name] += "\n// changed\n"
	}
	delete(now, "pkg/kubelet/cm/cpumanager/gone_test.go")
	// A file that begins to import what ours replace.
	now["pkg/kubelet/cm/devicemanager/checked.go"] = importsManager
	now["pkg/kubelet/cm/topologymanager/new/b.go"] = importsManager

	ours := dropin.Packages{
		"numa/set.go":           []byte("package numa\n"),
		"cpumanager/manager.go": []byte("package cpumanager\n\nimport (\n\t_ \"k8s.io/kubernetes/pkg/kubelet/cm/numa\"\n\t_ \"k8s.io/kubernetes/pkg/kubelet/lifecycle\"\n)\n"),
	}
	groups, err := Releases(tree(t, old), tree(t, now), ours)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, g := range groups {
		fmt.Fprintln(&got, g.Title)
		for _, c := range g.Changes {
			fmt.Fprintf(&got, "  %s %s\n", c.How, c.Name)
		}
	}
	want := `in the packages that podslice replaces
  changed pkg/kubelet/cm/cpumanager/a.go
  removed pkg/kubelet/cm/cpumanager/gone_test.go
  added pkg/kubelet/cm/topologymanager/new/b.go
in files that podslice edits
  changed pkg/kubelet/cm/container_manager_linux.go
  changed pkg/kubelet/kuberuntime/kuberuntime_container_linux.go
in the packages that podslice imports
  changed pkg/kubelet/lifecycle/interfaces.go
in files that import what podslice replaces
  changed pkg/kubelet/cm/devicemanager/checked.go
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

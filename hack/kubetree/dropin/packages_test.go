// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"strings"
	"testing"
)

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

func TestLoadPackages(t *testing.T) {
	pkgs := load(t, ours)
	want := "cpumanager/manager.go\ncpumanager/state/state.go\ncpumanager/state/testing/helper.go\nmemorymanager/manager.go\nnuma/set.go\ntopologymanager/manager.go"
	if got := names(pkgs); got != want {
		t.Errorf("packages have\n%s\nwant\n%s", got, want)
	}
	// The string at the end is no import.
	wantFile := `package cpumanager

import (
	"fmt"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/numa"
)

var _ = fmt.Sprint(numa.A, state.B, "github.com/podslice/podslice/pkg/kubelet/cm/numa")
`
	if got := string(pkgs["cpumanager/manager.go"]); got != wantFile {
		t.Errorf("imports were rewritten to\n%s\nwant\n%s", got, wantFile)
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

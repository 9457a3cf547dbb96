// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckKubeVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.37.0":       "",
		"v1.37.12":      "",
		"v1.36.3":       "is Kubernetes 1.36",
		"v2.37.0":       "is Kubernetes 2.37",
		"1.37.2":        "is not a Kubernetes release",
		"v1.37":         "is not a Kubernetes release",
		"v1.37.0-rc.1":  "is not a Kubernetes release",
		"v1.37.2; true": "is not a Kubernetes release",
	} {
		err := checkKubeVersion(version)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", version, err, want)
		}
	}
}

func TestCombinedVersion(t *testing.T) {
	got, err := combinedVersion("v1.37.2", "0.1.0")
	if got != "v1.37.2+podslice.0.1.0" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", "1", "0.1.0 x", "v0.1.0"} {
		if got, err := combinedVersion("v1.37.2", bad); err == nil {
			t.Errorf("our version %q gave %q, want an error", bad, got)
		}
	}
}

func TestLinkerFlags(t *testing.T) {
	got := linkerFlags("v1.37.2+podslice.0.1.0", "abc", "2026-01-02T03:04:05Z")
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.37.2+podslice.0.1.0 ",
		"-X k8s.io/client-go/pkg/version.gitVersion=v1.37.2+podslice.0.1.0 ",
		"-X k8s.io/component-base/version.gitMajor=1 ",
		"-X k8s.io/component-base/version.gitMinor=37",
		"-X k8s.io/component-base/version.gitCommit=abc ",
		"-X k8s.io/component-base/version.buildDate=2026-01-02T03:04:05Z ",
	} {
		if !strings.Contains(got+" ", want) {
			t.Errorf("linker flags %q lack %q", got, want)
		}
	}
}

func TestRewriteGoMod(t *testing.T) {
	const gomod = `module example

require (
	k8s.io/api v0.37.2
	k8s.io/kubernetes v1.37.2
	k8s.io/utils v0.0.0-20260210185600-b8788abfbbc2
)

replace (
	k8s.io/api => k8s.io/api v0.37.2
	k8s.io/cri-client => k8s.io/cri-client v0.37.2
)
`
	same, err := rewriteGoMod(gomod, "v1.37.2", "")
	if err != nil || same != gomod {
		t.Errorf("same release, no tree: error %v, got\n%s", err, same)
	}
	got, err := rewriteGoMod(gomod, "v1.37.5", "_output/kubetree/v1.37.5/src")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\tk8s.io/kubernetes v1.37.5\n",
		"\tk8s.io/api => k8s.io/api v0.37.5\n",
		"\tk8s.io/cri-client => k8s.io/cri-client v0.37.5\n",
		"\tk8s.io/utils v0.0.0-20260210185600-b8788abfbbc2\n",
		"\nreplace k8s.io/kubernetes => ./_output/kubetree/v1.37.5/src\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if _, err := rewriteGoMod("module example\n", "v1.37.2", ""); err == nil {
		t.Error("a go.mod without Kubernetes: want an error")
	}
}

func TestStamp(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kubelet")
	s := digest("x", map[string][]byte{"a": []byte("1"), "b": []byte("2")})
	if s == digest("x", map[string][]byte{"a": []byte("12"), "b": nil}) || s == digest("y", map[string][]byte{"a": []byte("1"), "b": []byte("2")}) {
		t.Error("different inputs, same digest")
	}
	check := func(when string, want bool) {
		t.Helper()
		if got, err := s.matches(binary); got != want || err != nil {
			t.Errorf("%s: matches %v, error %v; want %v", when, got, err, want)
		}
	}
	check("no binary", false)
	if err := os.WriteFile(binary, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	check("no stamp", false)
	if err := s.write(binary); err != nil {
		t.Fatal(err)
	}
	check("built", true)
	s = digest("x", nil)
	check("other inputs", false)
}

// SPDX-License-Identifier: Apache-2.0

package release

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
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
		err := Check(version)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", version, err, want)
		}
	}
}

func TestCombine(t *testing.T) {
	got, err := Combine("v1.37.2", "0.1.0")
	if got != "v1.37.2+podslice.0.1.0" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", "1", "0.1.0 x", "v0.1.0"} {
		if got, err := Combine("v1.37.2", bad); err == nil {
			t.Errorf("our version %q gave %q, want an error", bad, got)
		}
	}
}

func TestLinkerFlags(t *testing.T) {
	got := LinkerFlags("v1.37.2+podslice.0.1.0", "abc", "2026-01-02T03:04:05Z")
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

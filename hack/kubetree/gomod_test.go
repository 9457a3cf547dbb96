// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

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

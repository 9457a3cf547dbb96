// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"

	"github.com/podslice/podslice/hack/kubetree/release"
)

var (
	kubeRequire    = regexp.MustCompile(`(?m)^(\s*(?:require\s+)?k8s\.io/kubernetes\s+)(v\S+)`)
	stagingReplace = regexp.MustCompile(`(?m)^(\s*(?:replace\s+)?k8s\.io/\S+\s+=>\s+k8s\.io/\S+\s+)v0\.\S+`)
)

// requiredKube returns the Kubernetes release that a go.mod requires.
func requiredKube(gomod string) (string, error) {
	m := kubeRequire.FindStringSubmatch(gomod)
	if m == nil {
		return "", fmt.Errorf("go.mod does not require %s", release.KubeModule)
	}
	return m[2], nil
}

// rewriteGoMod returns gomod with Kubernetes and its staging modules at another
// release, and, unless tree is empty, with Kubernetes replaced by that folder.
// The folder is written relative to the main module, as Go reads it.
func rewriteGoMod(gomod, kube, tree string) (string, error) {
	was, err := requiredKube(gomod)
	if err != nil {
		return "", err
	}
	if was != kube {
		gomod = kubeRequire.ReplaceAllString(gomod, "${1}"+kube)
		// The staging modules are also in require lines, but a replace without a
		// version on its left side decides for every one of them.
		gomod = stagingReplace.ReplaceAllString(gomod, "${1}"+release.StagingVersion(kube))
	}
	if tree != "" {
		gomod += fmt.Sprintf("\nreplace %s => ./%s\n", release.KubeModule, tree)
	}
	return gomod, nil
}

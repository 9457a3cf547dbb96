// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"fmt"
	"strings"

	"github.com/podslice/podslice/hack/kubetree/dropin"
)

const modulePath = "k8s.io/kubernetes/"

// defaultPatterns are the packages that use ours, and what is built on them.
var defaultPatterns = []string{
	"./pkg/kubelet/cm/...",
	"./pkg/kubelet/allocation/...",
	"./pkg/kubelet/kuberuntime/...",
	"./pkg/kubelet/apis/podresources/...",
	"./pkg/kubelet/server/...",
	"./pkg/kubelet",
	"./cmd/kubelet/...",
}

// patterns returns what a user asked for, as Go reads it: the folder's name in
// the tree does without a leading ./ here.
func patterns(asked string) []string {
	fields := strings.Fields(asked)
	if len(fields) == 0 {
		return defaultPatterns
	}
	for i, field := range fields {
		field = strings.TrimPrefix(strings.TrimPrefix(field, modulePath), "./")
		fields[i] = "./" + strings.TrimSuffix(field, "/")
	}
	return fields
}

// testable lists the packages that have tests, without those that ours replace:
// upstream's tests of them are about their inside, and went with them.
func testable(ctx context.Context, tree string, patterns []string) ([]string, error) {
	out, err := goCommand(ctx, tree, append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}"}, patterns...)...).output()
	if err != nil {
		return nil, err
	}
	var pkgs []string
	for pkg := range strings.FieldsSeq(out) {
		if !isReplaced(pkg) {
			pkgs = append(pkgs, pkg)
		}
	}
	if len(pkgs) == 0 {
		return nil, fmt.Errorf("no package with tests in %s", strings.Join(patterns, " "))
	}
	return pkgs, nil
}

func isReplaced(pkg string) bool {
	for _, dir := range dropin.Replaced {
		if pkg == dropin.KubePrefix+dir || strings.HasPrefix(pkg, dropin.KubePrefix+dir+"/") {
			return true
		}
	}
	return false
}

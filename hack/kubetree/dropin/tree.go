// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// versionFile holds the minor release that a checkout is of, as a constant.
const versionFile = "staging/src/k8s.io/component-base/version/base.go"

var kubeModuleLine = regexp.MustCompile(`(?m)^module\s+k8s\.io/kubernetes\s*$`)

// CheckTree refuses a folder that is not a checkout of Kubernetes, with its
// staging modules, of the given minor release, such as 1.37.
func CheckTree(tree, minor string) error {
	if info, err := os.Stat(tree); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is not a folder", tree)
	}
	gomod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil || !kubeModuleLine.Match(gomod) {
		return fmt.Errorf("%s is not a Kubernetes source tree: it has no go.mod of the module k8s.io/kubernetes", tree)
	}
	for _, must := range []string{"cmd/kubelet", CMDir} {
		if info, err := os.Stat(filepath.Join(tree, filepath.FromSlash(must))); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a Kubernetes source tree: it has no folder %s", tree, must)
		}
	}
	is, err := minorRelease(tree)
	if err != nil {
		return fmt.Errorf("%s does not tell which Kubernetes it is: %w", tree, err)
	}
	if is != minor {
		return fmt.Errorf("%s is Kubernetes %s: these packages implement the manager interfaces of %s only", tree, is, minor)
	}
	return nil
}

// minorRelease reads the constant DefaultKubeBinaryVersion. It parses the file
// and runs nothing: the tree may not even compile yet.
func minorRelease(tree string) (string, error) {
	name := filepath.Join(tree, filepath.FromSlash(versionFile))
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for i, ident := range value.Names {
				if ident.Name != "DefaultKubeBinaryVersion" || i >= len(value.Values) {
					continue
				}
				if lit, ok := value.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					return strconv.Unquote(lit.Value)
				}
			}
		}
	}
	return "", fmt.Errorf("%s has no string DefaultKubeBinaryVersion", versionFile)
}

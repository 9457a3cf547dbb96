// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	// CMDir is where the packages live, here and in a Kubernetes tree.
	CMDir = "pkg/kubelet/cm"

	// OurPrefix and KubePrefix are the import paths of what is in CMDir, here and
	// in a Kubernetes tree.
	OurPrefix  = "github.com/podslice/podslice/pkg/kubelet/cm/"
	KubePrefix = "k8s.io/kubernetes/pkg/kubelet/cm/"
)

// Replaced are the upstream directories that ours stand in for.
var Replaced = []string{"cpumanager", "memorymanager", "topologymanager"}

// Packages are the drop-in's files: content by slash-separated path beneath
// pkg/kubelet/cm, with imports rewritten and formatted.
type Packages map[string][]byte

// LoadPackages reads every directory beneath root/pkg/kubelet/cm. Tests and
// their data stay behind; helper packages named testing come along, because
// upstream's other tests import them.
func LoadPackages(root string) (Packages, error) {
	base := filepath.Join(root, filepath.FromSlash(CMDir))
	pkgs := Packages{}
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if strings.HasSuffix(rel, "_test.go") || strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(rel, ".md") {
			return nil
		}
		if !strings.Contains(rel, "/") {
			return fmt.Errorf("%s: a file directly in %s would join upstream's package cm; only directories can be dropped in", rel, CMDir)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(rel, ".go") {
			if data, err = rewriteImports(rel, data); err != nil {
				return err
			}
		}
		pkgs[rel] = data
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("packages of %s: %w", base, err)
	}
	return pkgs, nil
}

// dirs returns the top directories, sorted.
func (p Packages) dirs() []string {
	return topDirs(maps.Keys(p))
}

// topDirs returns the first elements of slash-separated paths, sorted.
func topDirs(paths iter.Seq[string]) []string {
	var out []string
	for path := range paths {
		dir, _, _ := strings.Cut(path, "/")
		out = append(out, dir)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rewriteImports makes a file import our packages from their place in the
// Kubernetes module, and formats it: the changed paths sort differently.
func rewriteImports(name string, src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	// From the back, so that earlier offsets stay right.
	for _, spec := range slices.Backward(file.Imports) {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		rest, ok := strings.CutPrefix(path, OurPrefix)
		if !ok {
			if strings.HasPrefix(path, "github.com/podslice/podslice") {
				return nil, fmt.Errorf("%s imports %s, which is outside %s and cannot be dropped in", name, path, CMDir)
			}
			continue
		}
		from, to := fset.Position(spec.Path.Pos()).Offset, fset.Position(spec.Path.End()).Offset
		src = slices.Concat(src[:from], []byte(strconv.Quote(KubePrefix+rest)), src[to:])
	}
	out, err := format.Source(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

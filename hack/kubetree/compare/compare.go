// SPDX-License-Identifier: Apache-2.0

// Package compare tells what of two Kubernetes releases matters to our packages:
// upstream's versions of the packages that ours replace, the files that get a few
// lines of ours, the packages that ours import, and the files that import what ours
// replace. A fault mended there may have to be mended here, and a changed interface
// has to be followed.
//
// The last two are read from the import lines, not from a list that would grow
// old. Limits: staging modules and other dependencies are not compared; that
// they fit is for the compiler to say.
package compare

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podslice/podslice/hack/kubetree/dropin"
)

const modulePath = "k8s.io/kubernetes/"

// Group is files that matter for one reason.
type Group struct {
	Title   string
	Changes []Change
}

// Change is a file that is not the same in both releases.
type Change struct {
	Name string // slash-separated, beneath the tree
	How  string // added, removed or changed
}

// Releases compares two module trees.
func Releases(from, to string, pkgs dropin.Packages) ([]Group, error) {
	theirs, err := imported(pkgs)
	if err != nil {
		return nil, err
	}
	replaced := Group{Title: "in the packages that podslice replaces"}
	imports := Group{Title: "in the packages that podslice imports"}
	edited := Group{Title: "in files that podslice edits"}
	for _, e := range dropin.Edits {
		edited.Changes = append(edited.Changes, Change{Name: e.File})
	}
	importers := Group{Title: "in files that import what podslice replaces"}
	for _, tree := range []string{from, to} {
		for _, dir := range dropin.Replaced {
			err := replaced.add(tree, path.Join(dropin.CMDir, dir), true, func(string) (bool, error) { return true, nil })
			if err != nil {
				return nil, err
			}
		}
		for _, dir := range theirs {
			err := imports.add(tree, dir, false, func(name string) (bool, error) {
				return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"), nil
			})
			if err != nil {
				return nil, err
			}
		}
		for _, dir := range []string{"pkg/kubelet", "cmd/kubelet", "test/e2e_node"} {
			err := importers.add(tree, dir, true, func(name string) (bool, error) {
				return usesReplaced(filepath.Join(tree, filepath.FromSlash(name)))
			})
			if err != nil {
				return nil, err
			}
		}
	}
	groups := []Group{replaced, edited, imports, importers}
	seen := map[string]bool{}
	for i := range groups {
		if err := groups[i].compare(from, to, seen); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// add collects the files of a folder that match; a folder that one of the
// releases lacks has none.
func (g *Group) add(tree, dir string, deep bool, match func(name string) (bool, error)) error {
	top := filepath.Join(tree, filepath.FromSlash(dir))
	err := filepath.WalkDir(top, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if full != top && (!deep || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(tree, full)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		ok, err := match(name)
		if ok {
			g.Changes = append(g.Changes, Change{Name: name})
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// compare keeps what is different and was not in a group before.
func (g *Group) compare(from, to string, seen map[string]bool) error {
	var out []Change
	slices.SortFunc(g.Changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range slices.Compact(g.Changes) {
		if seen[c.Name] {
			continue
		}
		seen[c.Name] = true
		old, oldErr := os.ReadFile(filepath.Join(from, filepath.FromSlash(c.Name)))
		now, nowErr := os.ReadFile(filepath.Join(to, filepath.FromSlash(c.Name)))
		switch {
		case errors.Is(oldErr, fs.ErrNotExist) && errors.Is(nowErr, fs.ErrNotExist):
			continue
		case errors.Is(oldErr, fs.ErrNotExist):
			c.How = "added"
		case errors.Is(nowErr, fs.ErrNotExist):
			c.How = "removed"
		case oldErr != nil || nowErr != nil:
			return errors.Join(oldErr, nowErr)
		case bytes.Equal(old, now):
			continue
		default:
			c.How = "changed"
		}
		out = append(out, c)
	}
	g.Changes = out
	return nil
}

// imported lists the folders of Kubernetes' own packages that ours import.
func imported(pkgs dropin.Packages) ([]string, error) {
	dirs := map[string]bool{}
	for name, data := range pkgs {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		paths, err := imports(name, data)
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			if dir, ok := strings.CutPrefix(p, modulePath); ok && !isOurs(p, pkgs) {
				dirs[dir] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(dirs)), nil
}

func isOurs(importPath string, pkgs dropin.Packages) bool {
	dir, ok := strings.CutPrefix(importPath, dropin.KubePrefix)
	if !ok {
		return false
	}
	for name := range pkgs {
		if path.Dir(name) == dir {
			return true
		}
	}
	return false
}

// usesReplaced says whether a Go file outside of them imports a package that
// ours replace.
func usesReplaced(file string) (bool, error) {
	if !strings.HasSuffix(file, ".go") {
		return false, nil
	}
	paths, err := imports(file, nil)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(paths, func(p string) bool {
		rest, ok := strings.CutPrefix(p, dropin.KubePrefix)
		dir, _, _ := strings.Cut(rest, "/")
		return ok && slices.Contains(dropin.Replaced, dir)
	}), nil
}

// imports returns the import paths of a Go file, read from src or, without it,
// from the file.
func imports(name string, src []byte) ([]string, error) {
	var from any
	if src != nil {
		from = src
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, from, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("imports of %s: %w", name, err)
	}
	var out []string
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("imports of %s: %w", name, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const (
	// cmDir is where the packages live, here and in a Kubernetes tree.
	cmDir = "pkg/kubelet/cm"
	// manifestName is the file in a tree's cmDir that lists the directories we
	// added, so that a later run can tell them from upstream's.
	manifestName = ".podslice-packages"

	ourPrefix  = "github.com/podslice/podslice/pkg/kubelet/cm/"
	kubePrefix = "k8s.io/kubernetes/pkg/kubelet/cm/"
)

// replaced are the upstream directories that ours stand in for.
var replaced = []string{"cpumanager", "memorymanager", "topologymanager"}

// Packages are the drop-in's files: content by slash-separated path beneath
// pkg/kubelet/cm, with imports rewritten and formatted.
type Packages map[string][]byte

// LoadPackages reads every directory beneath root/pkg/kubelet/cm. Tests and
// their data stay behind; helper packages named testing come along, because
// upstream's other tests import them.
func LoadPackages(root string) (Packages, error) {
	base := filepath.Join(root, filepath.FromSlash(cmDir))
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
			return fmt.Errorf("%s: a file directly in %s would join upstream's package cm; only directories can be dropped in", rel, cmDir)
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
	var out []string
	for name := range p {
		out = append(out, name[:strings.Index(name, "/")])
	}
	sort.Strings(out)
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
		rest, ok := strings.CutPrefix(path, ourPrefix)
		if !ok {
			if strings.HasPrefix(path, "github.com/podslice/podslice") {
				return nil, fmt.Errorf("%s imports %s, which is outside %s and cannot be dropped in", name, path, cmDir)
			}
			continue
		}
		from, to := fset.Position(spec.Path.Pos()).Offset, fset.Position(spec.Path.End()).Offset
		src = slices.Concat(src[:from], []byte(strconv.Quote(kubePrefix+rest)), src[to:])
	}
	out, err := format.Source(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

// DropIn makes the Kubernetes tree's pkg/kubelet/cm hold exactly pkgs in the
// three replaced directories and in those that pkgs add. It returns how many
// files it wrote or removed; a second call with the same packages returns 0.
// It refuses, before it changes anything, a tree that is not Kubernetes and a
// directory whose name upstream uses for something else.
func DropIn(tree string, pkgs Packages) (int, error) {
	base := filepath.Join(tree, filepath.FromSlash(cmDir))
	for _, must := range []string{filepath.Join(tree, "cmd", "kubelet"), base} {
		if info, err := os.Stat(must); err != nil || !info.IsDir() {
			return 0, fmt.Errorf("%s is not a Kubernetes source tree: it has no folder %s", tree, must)
		}
	}
	added, err := readManifest(base)
	if err != nil {
		return 0, err
	}
	dirs := pkgs.dirs()
	for _, dir := range dirs {
		if slices.Contains(replaced, dir) || slices.Contains(added, dir) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(base, dir)); !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("%s/%s exists in %s: our package of this name would mix with upstream's", cmDir, dir, tree)
		}
	}
	for _, dir := range replaced {
		if !slices.Contains(dirs, dir) {
			return 0, fmt.Errorf("our packages have no %s/%s to replace upstream's with", cmDir, dir)
		}
	}

	// The manifest first: a run that is cut short must leave a tree that the
	// next run knows how to finish.
	ours := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return slices.Contains(replaced, d) })
	managed := slices.Concat(replaced, ours, added)
	sort.Strings(managed)
	managed = slices.Compact(managed)
	if err := writeManifest(base, slices.Concat(ours, added)); err != nil {
		return 0, err
	}
	changed := 0
	for _, dir := range managed {
		n, err := removeOthers(base, dir, pkgs)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	for name, data := range pkgs {
		n, err := writeIfChanged(filepath.Join(base, filepath.FromSlash(name)), data)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, writeManifest(base, ours)
}

// removeOthers deletes the files in base/dir that are not in pkgs, and folders
// that this leaves empty.
func removeOthers(base, dir string, pkgs Packages) (int, error) {
	top := filepath.Join(base, dir)
	if _, err := os.Lstat(top); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	removed := 0
	var folders []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			folders = append(folders, path)
			return nil
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		if _, wanted := pkgs[filepath.ToSlash(rel)]; wanted {
			return nil
		}
		removed++
		return os.Remove(path)
	})
	if err != nil {
		return removed, err
	}
	for _, folder := range slices.Backward(folders) {
		if entries, err := os.ReadDir(folder); err == nil && len(entries) == 0 {
			if err := os.Remove(folder); err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// writeIfChanged writes a file unless it holds data already, and returns 1 if
// it wrote: an untouched file keeps its time and Go's cache its answer.
func writeIfChanged(name string, data []byte) (int, error) {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return 0, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return 0, err
	}
	return 1, os.WriteFile(name, data, 0o644)
}

func readManifest(base string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(base, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list of added packages: %w", err)
	}
	return strings.Fields(string(data)), nil
}

func writeManifest(base string, dirs []string) error {
	dirs = slices.Clone(dirs)
	sort.Strings(dirs)
	text := strings.Join(slices.Compact(dirs), "\n") + "\n"
	_, err := writeIfChanged(filepath.Join(base, manifestName), []byte(text))
	return err
}

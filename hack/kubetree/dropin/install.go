// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Options say how a tree is to be treated.
type Options struct {
	// Version of our packages, for whoever reads the manifest.
	Version string
	// Release is the Kubernetes release that the tree is of, for messages.
	Release string
	// Upstream returns a folder with that release's own tree. It is called only
	// when the manifest does not answer for every file: getting a release may
	// need the network.
	Upstream func() (string, error)
	// Replace lets files go that are neither podslice's nor upstream's, as long
	// as git has them.
	Replace bool
	// Edits are put into files of the tree that stay its owner's.
	Edits []Edit
}

// Result counts what Install did; it is zero when there was nothing to do.
type Result struct {
	Written, Removed int
	Edited           int // files of the tree's owner
}

// Install makes the tree's pkg/kubelet/cm hold exactly pkgs in the three
// replaced directories and in those that pkgs add, and makes the edits. A refusal comes before any
// change; a run that is cut short leaves a tree that the next run finishes.
func Install(tree string, pkgs Packages, o Options) (Result, error) {
	base := filepath.Join(tree, filepath.FromSlash(CMDir))
	before, editsBefore, known, err := readManifest(base)
	if err != nil {
		return Result{}, err
	}
	if err := checkDirs(base, pkgs, before); err != nil {
		return Result{}, err
	}
	managed := slices.Concat(Replaced, pkgs.dirs(), before.dirs())
	slices.Sort(managed)
	found, err := takeInventory(base, slices.Compact(managed))
	if err != nil {
		return Result{}, err
	}
	if err := refuse(tree, found, before, known, o); err != nil {
		return Result{}, err
	}

	edited, err := planEdits(tree, editsBefore, o.Edits)
	if err != nil {
		return Result{}, err
	}

	after := manifest{}
	var write, remove []string
	for _, name := range slices.Sorted(maps.Keys(pkgs)) {
		digest := digestOf(pkgs[name])
		after.add(name, digest)
		if found.files[name] != digest {
			write = append(write, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found.files)) {
		if _, stays := pkgs[name]; !stays {
			remove = append(remove, name)
		}
	}

	// First a manifest with all that may be here until the end: whatever a run
	// that is cut short leaves behind, the next one knows it for its own.
	if len(write)+len(remove)+len(found.litter)+len(edited) > 0 {
		journal := after.clone()
		for name, digest := range found.files {
			journal.add(name, digest)
		}
		if _, err := WriteFile(filepath.Join(base, manifestName), journal.text(o.Version, true, slices.Concat(editsBefore, o.Edits)...)); err != nil {
			return Result{}, err
		}
	}
	var done Result
	for _, name := range slices.Concat(remove, found.litter) {
		if err := os.Remove(filepath.Join(base, filepath.FromSlash(name))); err != nil {
			return done, err
		}
		done.Removed++
	}
	for _, name := range write {
		if _, err := WriteFile(filepath.Join(base, filepath.FromSlash(name)), pkgs[name]); err != nil {
			return done, err
		}
		done.Written++
	}
	for _, name := range slices.Sorted(maps.Keys(edited)) {
		if _, err := WriteFile(filepath.Join(tree, filepath.FromSlash(name)), edited[name]); err != nil {
			return done, err
		}
		done.Edited++
	}
	// From the inside out. Folders that hold something stay, and those that were
	// empty before we came are nobody's.
	for _, dir := range slices.Backward(found.folders) {
		full := filepath.Join(base, filepath.FromSlash(dir))
		if entries, err := os.ReadDir(full); err == nil && len(entries) == 0 {
			if err := os.Remove(full); err != nil {
				return done, err
			}
		}
	}
	if _, err := WriteFile(filepath.Join(base, manifestName), after.text(o.Version, false, o.Edits...)); err != nil {
		return done, err
	}
	// What a run may have left that was cut short while it wrote the manifest.
	if err := os.Remove(filepath.Join(base, tmpName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}
	return done, nil
}

// checkDirs refuses a directory of ours whose name upstream, or the owner of the
// tree, uses for something else.
func checkDirs(base string, pkgs Packages, before manifest) error {
	dirs := pkgs.dirs()
	known := slices.Concat(Replaced, before.dirs())
	for _, dir := range dirs {
		if slices.Contains(known, dir) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(base, dir)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s has a folder %s that is not podslice's: our package of this name would mix with it", base, dir)
		}
	}
	for _, dir := range Replaced {
		if !slices.Contains(dirs, dir) {
			return fmt.Errorf("our packages have no %s/%s to replace upstream's with", CMDir, dir)
		}
	}
	return nil
}

// tmpName is what a file is called while it is written.
const tmpName = ".podslice-part"

// WriteFile replaces a file in one step, unless it holds data already: a file
// that is not touched keeps its time, and Go's caches their answers. It says
// whether it wrote.
func WriteFile(name string, data []byte) (bool, error) {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, err
	}
	part := filepath.Join(dir, tmpName)
	if err := os.WriteFile(part, data, 0o644); err != nil {
		return false, err
	}
	return true, os.Rename(part, name)
}

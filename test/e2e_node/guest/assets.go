// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Assets is a folder with everything a guest boots from: kernel, initrd, root
// disk and the public half of the root's ssh host key.
type Assets struct {
	dir string
	out string
}

func (a Assets) kernel() string { return filepath.Join(a.dir, "vmlinuz") }
func (a Assets) initrd() string { return filepath.Join(a.dir, "initrd") }
func (a Assets) root() string   { return filepath.Join(a.dir, "root.ext4") }

// Busybox is a static busybox for the guest's processor.
func (a Assets) Busybox() string { return filepath.Join(a.dir, "busybox") }

func (a Assets) hostKey() string { return filepath.Join(a.dir, "ssh_host_ed25519_key.pub") }

// Log receives a line about what is being done.
type Log func(format string, args ...any)

// Prepare returns the assets kept under the output folder out, and makes them
// if they are not there or if the recipe has changed since. They are made under
// another name and renamed, so what an interrupted run left is never used.
func Prepare(ctx context.Context, out string, log Log) (Assets, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return Assets{}, err
	}
	base := filepath.Join(out, "guest")
	a := Assets{dir: filepath.Join(base, "root-"+recipeDigest()), out: out}
	if _, err := os.Stat(a.dir); err == nil {
		return a, nil
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return a, err
	}
	lock, err := lockOutput(out)
	if err != nil {
		return a, err
	}
	defer lock.Close()
	tmp := Assets{dir: a.dir + ".part", out: out}
	if err := os.RemoveAll(tmp.dir); err != nil {
		return a, fmt.Errorf("guest root: removing what an interrupted run left: %w", err)
	}
	if err := os.Mkdir(tmp.dir, 0o755); err != nil {
		return a, err
	}
	work := filepath.Join(tmp.dir, "work")
	for _, step := range []func(context.Context, Assets, string, Log) error{
		fetchKernel, fetchBusybox, makeTree, makeRootDisk, makeInitrd,
	} {
		if err := step(ctx, tmp, work, log); err != nil {
			return a, fmt.Errorf("guest root: %w", err)
		}
	}
	if err := os.RemoveAll(work); err != nil {
		return a, err
	}
	if err := os.Rename(tmp.dir, a.dir); err != nil {
		return a, err
	}
	return a, removeOthers(base, a.dir)
}

// removeOthers deletes the assets of earlier recipes, half a gigabyte each.
func removeOthers(base, keep string) error {
	all, err := filepath.Glob(filepath.Join(base, "root-*"))
	if err != nil {
		return err
	}
	for _, dir := range all {
		if dir == keep {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("assets of an earlier recipe: %w", err)
		}
	}
	return nil
}

// recipeDigest changes when anything that Prepare puts into the assets does,
// but for the versions that Debian serves: those are whatever the day has.
func recipeDigest() string {
	h := sha256.New()
	fmt.Fprintf(h, "recipe 2 %q %q %q %q %q %q %q\n", suite, mirror(), kernelPackage, rootPackages, rootDiskSize, initrdModules, initScript)
	for _, f := range rootFiles {
		fmt.Fprintln(h, f.path, f.mode, f.content)
	}
	fmt.Fprintln(h, maskedUnits, enabledUnits)
	return hex.EncodeToString(h.Sum(nil))[:12]
}

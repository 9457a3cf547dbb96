// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// kernelPackage is Debian's kernel for virtual machines. The package names the
// one that holds today's version.
const kernelPackage = "linux-image-cloud-amd64"

var kernelDepends = regexp.MustCompile(`(?m)^Depends: (linux-image-([^ ]*-cloud-amd64))\b`)

// fetchKernel downloads the kernel package and unpacks it to work/kernel; it is
// not installed on this machine.
func fetchKernel(ctx context.Context, a Assets, work string, log Log) error {
	show := exec.CommandContext(ctx, "apt-cache", "show", "--no-all-versions", kernelPackage)
	out, err := show.Output()
	m := kernelDepends.FindSubmatch(out)
	if err != nil || m == nil {
		return fmt.Errorf("apt knows no package %s: run apt-get update", kernelPackage)
	}
	name := string(m[1])
	log("downloading the guest's kernel, %s", name)
	dir := filepath.Join(work, "kernel")
	if err := unpackPackage(ctx, a, dir, name); err != nil {
		return err
	}
	image, err := one(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return err
	}
	return copyFile(image, a.kernel(), 0o644)
}

// fetchBusybox downloads the static busybox that the initrd and the images are
// made of. As a package it would push out the busybox that this machine has.
func fetchBusybox(ctx context.Context, a Assets, work string, _ Log) error {
	dir := filepath.Join(work, "busybox")
	if err := unpackPackage(ctx, a, dir, "busybox-static"); err != nil {
		return err
	}
	binary, err := one(filepath.Join(dir, "*bin", "busybox"))
	if err != nil {
		if binary, err = one(filepath.Join(dir, "usr/bin/busybox")); err != nil {
			return err
		}
	}
	return copyFile(binary, a.Busybox(), 0o755)
}

// unpackPackage downloads a Debian package and unpacks it to a folder, without
// installing it.
func unpackPackage(ctx context.Context, a Assets, dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	logfile := a.logFile("packages")
	if err := runIn(ctx, logfile, dir, "apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", name); err != nil {
		return fmt.Errorf("downloading %s: %w", name, err)
	}
	deb, err := one(filepath.Join(dir, "*.deb"))
	if err != nil {
		return fmt.Errorf("downloading %s: %w", name, err)
	}
	if err := run(ctx, logfile, "dpkg-deb", "-x", deb, dir); err != nil {
		return fmt.Errorf("unpacking %s: %w", deb, err)
	}
	return nil
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}

// installModules puts the kernel's modules and its configuration, which system
// validation reads, into the root.
func installModules(ctx context.Context, a Assets, work, root string) error {
	modules, err := one(filepath.Join(work, "kernel", "lib/modules/*"))
	if err != nil {
		return err
	}
	config, err := one(filepath.Join(work, "kernel", "boot/config-*"))
	if err != nil {
		return err
	}
	version := filepath.Base(modules)
	target := filepath.Join(root, "usr/lib/modules")
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	logfile := a.logFile("kernel")
	if err := run(ctx, logfile, "cp", "-a", modules, target); err != nil {
		return fmt.Errorf("kernel modules: %w", err)
	}
	if err := run(ctx, logfile, "cp", config, filepath.Join(root, "boot")); err != nil {
		return fmt.Errorf("kernel configuration: %w", err)
	}
	if err := run(ctx, logfile, "chroot", root, "/sbin/depmod", version); err != nil {
		return fmt.Errorf("depmod: %w", err)
	}
	return nil
}

// one returns the only file that matches.
func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d files match %s, want 1", len(found), pattern)
	}
	return found[0], nil
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// build is one kubelet to be built: what from, where to, and under which name.
type build struct {
	root     string
	tree     string // the Kubernetes tree, below the output folder
	modfile  string // our copy of go.mod
	binary   string
	version  string
	goos     string
	goarch   string
	sameKube bool // the release is the one that go.mod and go.sum are for

	module   module
	packages Packages
	gomod    string
	gosum    []byte
	ldflags  string
	stamp    stamp
}

// newBuild gathers every input and changes nothing but the module cache.
func newBuild(ctx context.Context, o options) (*build, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return nil, err
	}
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	gosum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return nil, err
	}
	pinned, err := requiredKube(string(gomod))
	if err != nil {
		return nil, err
	}
	kube := o.kubeVersion
	if kube == "" {
		kube = pinned
	}
	if err := checkKubeVersion(kube); err != nil {
		return nil, err
	}
	b := &build{root: root, goos: o.goos, goarch: o.goarch, sameKube: kube == pinned, gosum: gosum}
	if b.goarch == "" {
		b.goarch = runtime.GOARCH
	}
	if b.module, err = download(ctx, kube); err != nil {
		return nil, err
	}
	released, err := b.module.released()
	if err != nil {
		return nil, err
	}

	name := "kubelet"
	b.version = kube
	treeRel := ""
	if o.stock {
		name = "kubelet-stock"
	} else {
		ours := o.ourVersion
		if ours == "" {
			if ours, err = readVersion(root); err != nil {
				return nil, err
			}
		}
		if b.version, err = combinedVersion(kube, ours); err != nil {
			return nil, err
		}
		if b.packages, err = LoadPackages(root); err != nil {
			return nil, err
		}
		treeRel = filepath.ToSlash(filepath.Join(o.out, "kubetree", kube, "src"))
		b.tree = filepath.Join(root, filepath.FromSlash(treeRel))
	}
	b.modfile = filepath.Join(root, o.out, "kubetree", kube, name, "go.mod")
	b.binary = filepath.Join(root, o.out, "bin", name)
	if o.binary != "" {
		if b.binary, err = filepath.Abs(o.binary); err != nil {
			return nil, err
		}
	}
	if b.gomod, err = rewriteGoMod(string(gomod), kube, treeRel); err != nil {
		return nil, err
	}
	sources := digest("packages", b.packages)
	b.ldflags = linkerFlags(b.version, string(sources)[:40], released)
	b.stamp = digest("kubelet 1", Packages{
		"go":      []byte(runtime.Version()),
		"target":  []byte(b.goos + "/" + b.goarch),
		"go.mod":  []byte(b.gomod),
		"go.sum":  gosum,
		"ldflags": []byte(b.ldflags),
		"sources": []byte(sources),
	})
	return b, nil
}

// compile builds cmd/kubelet, statically: it must run on nodes whatever their
// C library. Go writes the binary in one piece or not at all.
func (b *build) compile(ctx context.Context) error {
	dir := filepath.Dir(b.modfile)
	if _, err := writeIfChanged(b.modfile, []byte(b.gomod)); err != nil {
		return fmt.Errorf("copy of go.mod: %w", err)
	}
	if _, err := writeIfChanged(filepath.Join(dir, "go.sum"), b.gosum); err != nil {
		return fmt.Errorf("copy of go.sum: %w", err)
	}
	args := []string{"build", "-modfile=" + b.modfile, "-trimpath", "-buildvcs=false", "-ldflags=" + b.ldflags, "-o", b.binary}
	if !b.sameKube {
		// Another release may need other versions and checksums. They go to the
		// copies; the repository's own files stay as they are.
		args = append(args, "-mod=mod")
	}
	args = append(args, kubeModule+"/cmd/kubelet")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+b.goos, "GOARCH="+b.goarch)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w", b.version, err)
	}
	return nil
}

// rel shortens a path for messages.
func (b *build) rel(path string) string {
	if r, err := filepath.Rel(b.root, path); err == nil {
		return r
	}
	return path
}

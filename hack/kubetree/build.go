// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/podslice/podslice/hack/kubetree/dropin"
	"github.com/podslice/podslice/hack/kubetree/release"
	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
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

	module   release.Module
	packages dropin.Packages
	gomod    string
	gosum    []byte
	ldflags  string
	stamp    stamp
}

// buildCommand fetches, drops in and builds, or finds that all of it was done
// already.
func buildCommand(ctx context.Context, args []string) error {
	var o buildOptions
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	o.add(flags)
	flags.BoolVar(&o.stock, "stock", false, "build upstream's kubelet without our packages")
	flags.StringVar(&o.goos, "goos", "linux", "target operating system")
	flags.StringVar(&o.goarch, "goarch", "", "target architecture (default: this machine's)")
	flags.StringVar(&o.binary, "o", "", "the binary to write (default: <out>/bin/kubelet or kubelet-stock)")
	if err := o.parse(flags, args); err != nil {
		return err
	}
	return o.build(ctx)
}

// buildOptions are what the command line says about a kubelet.
type buildOptions struct {
	common
	stock  bool // build upstream's kubelet unchanged
	goos   string
	goarch string
	binary string // where the kubelet goes
}

func (o buildOptions) build(ctx context.Context) error {
	b, err := newBuild(ctx, o)
	if err != nil {
		return err
	}
	fresh, err := b.stamp.matches(b.binary)
	if err != nil {
		return err
	}
	if fresh {
		fmt.Printf("kubelet: %s is up to date (%s)\n", o.rel(b.binary), b.version)
		return nil
	}
	if !o.stock {
		if err := release.CopyTree(ctx, b.module, b.tree); err != nil {
			return err
		}
		// The tree is the builder's own: nobody's work is lost there.
		done, err := o.install(ctx, b.tree, true)
		if err != nil {
			return err
		}
		fmt.Printf("kubelet: %d files written, %d removed and %d edited in %s\n", done.Written, done.Removed, done.Edited, o.rel(b.tree))
	}
	fmt.Printf("kubelet: building %s, %s/%s (minutes when Go's cache is cold)\n", b.version, b.goos, b.goarch)
	if err := b.compile(ctx); err != nil {
		return err
	}
	if err := b.stamp.write(b.binary); err != nil {
		return err
	}
	fmt.Printf("kubelet: built %s\n", o.rel(b.binary))
	return nil
}

// newBuild gathers every input and changes nothing but the module cache.
func newBuild(ctx context.Context, o buildOptions) (*build, error) {
	root := o.root
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	gosum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return nil, err
	}
	kube, pinned, err := o.kube()
	if err != nil {
		return nil, err
	}
	b := &build{root: root, goos: o.goos, goarch: o.goarch, sameKube: kube == pinned, gosum: gosum}
	if b.goarch == "" {
		b.goarch = runtime.GOARCH
	}
	if b.module, err = release.Download(ctx, kube); err != nil {
		return nil, err
	}
	released, err := b.module.Released()
	if err != nil {
		return nil, err
	}

	name := "kubelet"
	b.version = kube
	treeRel := ""
	if o.stock {
		name = "kubelet-stock"
	} else {
		if b.version, err = release.Combine(kube, podslice.Version); err != nil {
			return nil, err
		}
		if b.packages, err = dropin.LoadPackages(root); err != nil {
			return nil, err
		}
		treeRel = filepath.ToSlash(filepath.Join(o.out, "kubetree", kube, "tree"))
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
	if !o.stock {
		sources = digest("packages and edits", map[string][]byte{"packages": []byte(sources), "edits": fmt.Appendf(nil, "%q", dropin.Edits)})
	}
	b.ldflags = release.LinkerFlags(b.version, string(sources)[:40], released)
	b.stamp = digest("kubelet 1", map[string][]byte{
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
	if _, err := dropin.WriteFile(b.modfile, []byte(b.gomod)); err != nil {
		return fmt.Errorf("copy of go.mod: %w", err)
	}
	if _, err := dropin.WriteFile(filepath.Join(dir, "go.sum"), b.gosum); err != nil {
		return fmt.Errorf("copy of go.sum: %w", err)
	}
	args := []string{"build", "-modfile=" + b.modfile, "-trimpath", "-buildvcs=false", "-ldflags=" + b.ldflags, "-o", b.binary}
	if !b.sameKube {
		// Another release may need other versions and checksums. They go to the
		// copies; the repository's own files stay as they are.
		args = append(args, "-mod=mod")
	}
	args = append(args, release.KubeModule+"/cmd/kubelet")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+b.goos, "GOARCH="+b.goarch)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w", b.version, err)
	}
	return nil
}

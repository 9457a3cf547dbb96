// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// options are what the command line says. Paths are relative to root.
type options struct {
	root        string // the repository: where go.mod and pkg/kubelet/cm are
	out         string // the ignored output folder
	kubeVersion string // upstream release, v1.37.x
	ourVersion  string // version of this repository's packages
	stock       bool   // build upstream's kubelet unchanged
	goos        string
	goarch      string
	binary      string // where the kubelet goes
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "repository root")
	flag.StringVar(&o.out, "out", "_output", "output folder, relative to the root")
	flag.StringVar(&o.kubeVersion, "kube-version", "", "Kubernetes release to build (default: the one in go.mod)")
	flag.StringVar(&o.ourVersion, "our-version", "", "version of our packages (default: hack/VERSION)")
	flag.BoolVar(&o.stock, "stock", false, "build upstream's kubelet without our packages")
	flag.StringVar(&o.goos, "goos", "linux", "target operating system")
	flag.StringVar(&o.goarch, "goarch", "", "target architecture (default: this machine's)")
	flag.StringVar(&o.binary, "o", "", "the binary to write (default: <out>/bin/kubelet or kubelet-stock)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "kubetree:", err)
		os.Exit(1)
	}
}

// run fetches, drops in and builds, or finds that all of it was done already.
func run(ctx context.Context, o options) error {
	b, err := newBuild(ctx, o)
	if err != nil {
		return err
	}
	fresh, err := b.stamp.matches(b.binary)
	if err != nil {
		return err
	}
	if fresh {
		fmt.Printf("kubelet: %s is up to date (%s)\n", b.rel(b.binary), b.version)
		return nil
	}
	if !o.stock {
		if err := fetchTree(ctx, b.module, b.tree); err != nil {
			return err
		}
		changed, err := DropIn(b.tree, b.packages)
		if err != nil {
			return err
		}
		fmt.Printf("kubelet: %d files changed in %s\n", changed, b.rel(b.tree))
	}
	fmt.Printf("kubelet: building %s, %s/%s (minutes when Go's cache is cold)\n", b.version, b.goos, b.goarch)
	if err := b.compile(ctx); err != nil {
		return err
	}
	if err := b.stamp.write(b.binary); err != nil {
		return err
	}
	fmt.Printf("kubelet: built %s\n", b.rel(b.binary))
	return nil
}

// readVersion returns the version of our packages from hack/VERSION.
func readVersion(root string) (string, error) {
	name := filepath.Join(root, "hack", "VERSION")
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("version of our packages: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

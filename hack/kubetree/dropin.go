// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"

	"github.com/podslice/podslice/hack/kubetree/dropin"
	"github.com/podslice/podslice/hack/kubetree/release"
	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
)

// dropInCommand installs our packages into a checkout that is not ours.
func dropInCommand(ctx context.Context, args []string) error {
	var c common
	flags := flag.NewFlagSet("drop-in", flag.ContinueOnError)
	c.add(flags)
	tree := flags.String("tree", "", "the Kubernetes checkout")
	replace := flags.Bool("replace", false, "let patches of the checkout's owner go")
	if err := c.parse(flags, args); err != nil {
		return err
	}
	if *tree == "" {
		return errors.New("drop-in: name the Kubernetes checkout: make drop-in TREE=<folder>")
	}
	dir, err := filepath.Abs(*tree)
	if err != nil {
		return err
	}
	if err := dropin.CheckTree(dir, release.Minor); err != nil {
		return err
	}
	done, err := c.install(ctx, dir, *replace)
	if err != nil {
		return err
	}
	if done == (dropin.Result{}) {
		fmt.Printf("drop-in: %s has podslice %s; nothing to do\n", dir, podslice.Version)
		return nil
	}
	fmt.Printf("drop-in: podslice %s is in %s: %d files written and %d removed in %s, %d edited\n",
		podslice.Version, dir, done.Written, done.Removed, dropin.CMDir, done.Edited)
	fmt.Printf("drop-in: commit pkg/kubelet there, the manifest too, and build as ever: go build ./cmd/kubelet\n")
	return nil
}

// install puts the repository's packages into a tree of the release that was
// asked for.
func (c *common) install(ctx context.Context, tree string, replace bool) (dropin.Result, error) {
	kube, _, err := c.kube()
	if err != nil {
		return dropin.Result{}, err
	}
	pkgs, err := dropin.LoadPackages(c.root)
	if err != nil {
		return dropin.Result{}, err
	}
	return dropin.Install(tree, pkgs, dropin.Options{
		Version: podslice.Version,
		Release: kube,
		Replace: replace,
		Edits:   dropin.Edits,
		Upstream: func() (string, error) {
			m, err := release.Download(ctx, kube)
			return m.Dir, err
		},
	})
}

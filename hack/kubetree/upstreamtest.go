// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podslice/podslice/hack/kubetree/checkout"
	"github.com/podslice/podslice/hack/kubetree/dropin"
	"github.com/podslice/podslice/hack/kubetree/release"
	"github.com/podslice/podslice/hack/kubetree/upstream"
	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
)

// errTestsFailed has been explained already, in print.
var errTestsFailed = errors.New("failed, see above")

// testCommand runs upstream's tests in a checkout with our packages.
func testCommand(ctx context.Context, args []string) error {
	var c common
	flags := flag.NewFlagSet("test-upstream", flag.ContinueOnError)
	c.add(flags)
	packages := flags.String("pkgs", "", "packages, such as pkg/kubelet/cm/... (default: all that use ours)")
	steps := flags.String("steps", "", "what else must compile, by name, separated by commas")
	if err := c.parse(flags, args); err != nil {
		return err
	}
	report, err := c.testUpstream(ctx, *packages, *steps)
	if err != nil {
		return err
	}
	kube, _, err := c.kube()
	if err != nil {
		return err
	}
	fmt.Printf("make test-upstream: %s (Kubernetes %s with podslice %s)\n", report.Summary(), kube, podslice.Version)
	if !report.Passed() {
		return errTestsFailed
	}
	return nil
}

// testUpstream makes the two checkouts, or brings them up to date, and runs.
func (c *common) testUpstream(ctx context.Context, packages, stepNames string) (*upstream.Report, error) {
	steps, err := upstream.ParseSteps(stepNames)
	if err != nil {
		return nil, err
	}
	kube, _, err := c.kube()
	if err != nil {
		return nil, err
	}
	trees, err := c.checkouts(ctx, kube)
	if err != nil {
		return nil, err
	}
	return upstream.Run(ctx, upstream.Options{
		Root: c.root, Kube: kube, Trees: trees, Packages: packages, Steps: steps, Out: os.Stdout,
	})
}

// checkouts returns two checkouts of a release below the output folder. Ours
// get into one of them the way they get into a user's.
func (c *common) checkouts(ctx context.Context, kube string) (upstream.Trees, error) {
	dir := filepath.Join(c.root, c.out, "checkout", kube)
	trees := upstream.Trees{Stock: filepath.Join(dir, "stock"), Ours: filepath.Join(dir, "podslice")}
	if err := checkout.Make(ctx, kube, trees.Stock); err != nil {
		return trees, err
	}
	if err := checkout.Clone(ctx, trees.Stock, trees.Ours); err != nil {
		return trees, err
	}
	if err := dropin.CheckTree(trees.Ours, release.Minor); err != nil {
		return trees, err
	}
	done, err := c.install(ctx, trees.Ours, false)
	if err != nil {
		return trees, err
	}
	if done != (dropin.Result{}) {
		fmt.Printf("upstream: %d files written, %d removed and %d edited in %s\n", done.Written, done.Removed, done.Edited, c.rel(trees.Ours))
	}
	return trees, nil
}

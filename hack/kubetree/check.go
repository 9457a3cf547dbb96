// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/podslice/podslice/hack/kubetree/compare"
	"github.com/podslice/podslice/hack/kubetree/dropin"
	"github.com/podslice/podslice/hack/kubetree/release"
)

// checkCommand judges a patch release that is not the one of go.mod: what
// changed in upstream that matters to us, and whether everything still holds.
// It goes on after a failure, because the next one says more about the release.
func checkCommand(ctx context.Context, args []string) error {
	var c common
	flags := flag.NewFlagSet("check-release", flag.ContinueOnError)
	c.add(flags)
	steps := flags.String("steps", "", "what else must compile, by name, separated by commas")
	if err := c.parse(flags, args); err != nil {
		return err
	}
	if c.kubeVersion == "" {
		return errors.New("check-release: name the release: make check-release KUBE_VERSION=v" + release.Minor + ".x")
	}
	kube, pinned, err := c.kube()
	if err != nil {
		return err
	}

	changes, err := c.compareReleases(ctx, pinned, kube)
	if err != nil {
		return err
	}
	closing := []string{fmt.Sprintf("%d files that matter here differ from %s", changes, pinned)}
	failed := false
	say := func(what string, err error) {
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "check-release: %s: %v\n", what, err)
			what += ": FAILED"
		} else {
			what += ": passed"
		}
		closing = append(closing, what)
	}

	b := buildOptions{common: c, goos: "linux", binary: filepath.Join(c.root, c.out, "bin", "kubelet-"+kube)}
	say("build of the kubelet", b.build(ctx))
	if err := ctx.Err(); err != nil {
		return err
	}
	say("podslice's own tests", c.ownTests(ctx, kube))
	if err := ctx.Err(); err != nil {
		return err
	}
	report, err := c.testUpstream(ctx, "", *steps)
	if err != nil {
		say("upstream's tests", err)
	} else {
		failed = failed || !report.Passed()
		closing = append(closing, "upstream's tests: "+report.Summary())
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	word := "fits"
	if failed {
		word = "DOES NOT FIT"
	}
	fmt.Println()
	for _, line := range closing {
		fmt.Printf("make check-release: %s: %s\n", kube, line)
	}
	fmt.Printf("make check-release: %s %s\n", kube, word)
	if failed {
		return errTestsFailed
	}
	return nil
}

// compareReleases prints what is different, with a command that shows it, and
// returns how many files are.
func (c *common) compareReleases(ctx context.Context, pinned, kube string) (int, error) {
	pkgs, err := dropin.LoadPackages(c.root)
	if err != nil {
		return 0, err
	}
	var dirs []string
	for _, version := range []string{pinned, kube} {
		m, err := release.Download(ctx, version)
		if err != nil {
			return 0, err
		}
		dirs = append(dirs, m.Dir)
	}
	groups, err := compare.Releases(dirs[0], dirs[1], pkgs)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, g := range groups {
		fmt.Printf("check-release: from %s to %s, %s: %d\n", pinned, kube, g.Title, len(g.Changes))
		for _, change := range g.Changes {
			fmt.Printf("  %-8s %s\n", change.How, change.Name)
		}
		total += len(g.Changes)
	}
	if total > 0 {
		fmt.Printf("check-release: to see them: diff -ru %s %s\n", dirs[0], dirs[1])
	}
	return total, nil
}

// ownTests runs this repository's tests with the release in place of the one in
// go.mod. Among them are those that hold our packages against upstream's own,
// which are the release's then.
func (c *common) ownTests(ctx context.Context, kube string) error {
	var texts [2][]byte
	for i, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(c.root, name))
		if err != nil {
			return err
		}
		texts[i] = data
	}
	gomod, err := rewriteGoMod(string(texts[0]), kube, "")
	if err != nil {
		return err
	}
	dir := filepath.Join(c.root, c.out, "kubetree", kube, "own-tests")
	if _, err := dropin.WriteFile(filepath.Join(dir, "go.mod"), []byte(gomod)); err != nil {
		return err
	}
	if _, err := dropin.WriteFile(filepath.Join(dir, "go.sum"), texts[1]); err != nil {
		return err
	}
	fmt.Printf("check-release: podslice's own tests with Kubernetes %s\n", kube)
	// Compiled as the kubelet is, so that Go's cache has most of it.
	cmd := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-modfile="+filepath.Join(dir, "go.mod"), "-trimpath", "-vet=off",
		"./pkg/...", "./test/managers/...", "./test/differential/...")
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(out.String()))
	}
	return nil
}

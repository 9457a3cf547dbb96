// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/podslice/podslice/hack/kubetree/release"
)

// commands are what the first argument may be. Each gets its own flags.
var commands = []struct {
	name, does string
	run        func(ctx context.Context, args []string) error
}{
	{"build", "build a kubelet", buildCommand},
	{"drop-in", "put our packages into a Kubernetes checkout", dropInCommand},
	{"test-upstream", "run upstream's tests with our packages", testCommand},
	{"check-release", "judge a patch release", checkCommand},
	{"suite", "build upstream's node e2e suite", suiteCommand},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "kubetree:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		for _, c := range commands {
			if c.name == args[0] {
				return c.run(ctx, args[1:])
			}
		}
	}
	text := "usage: kubetree <command> [flags]"
	for _, c := range commands {
		text += fmt.Sprintf("\n  %-14s %s", c.name, c.does)
	}
	return errors.New(text)
}

// common are flags that several commands have.
type common struct {
	root        string // the repository: where go.mod and pkg/kubelet/cm are
	out         string // the ignored output folder, relative to root
	kubeVersion string // upstream release, v1.37.x
}

func (c *common) add(flags *flag.FlagSet) {
	flags.StringVar(&c.root, "root", ".", "repository root")
	flags.StringVar(&c.out, "out", "_output", "output folder, relative to the root")
	flags.StringVar(&c.kubeVersion, "kube-version", "", "Kubernetes release (default: the one in go.mod)")
}

// parse reads the flags and makes root absolute. Arguments beside flags are
// slips.
func (c *common) parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: what is %q?", flags.Name(), flags.Arg(0))
	}
	var err error
	c.root, err = filepath.Abs(c.root)
	return err
}

// kube returns the release that was asked for, and the one that go.mod names.
func (c *common) kube() (wanted, pinned string, err error) {
	gomod, err := os.ReadFile(filepath.Join(c.root, "go.mod"))
	if err != nil {
		return "", "", err
	}
	if pinned, err = requiredKube(string(gomod)); err != nil {
		return "", "", err
	}
	if wanted = c.kubeVersion; wanted == "" {
		wanted = pinned
	}
	return wanted, pinned, release.Check(wanted)
}

// rel shortens a path below root for messages.
func (c *common) rel(path string) string {
	if r, err := filepath.Rel(c.root, path); err == nil {
		return r
	}
	return path
}

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
)

// suitePrograms are built from the module as it is: upstream's node e2e suite,
// and the device plugin that some of its specs run as a pod.
var suitePrograms = []struct {
	binary, pkg string
	args        []string
}{
	// Vetting all that the suite imports takes longer than building it.
	{"e2e_node.test", "/test/e2e_node", []string{"test", "-c", "-vet=off"}},
	{"sampledeviceplugin", "/test/images/sample-device-plugin", []string{"build", "-buildvcs=false"}},
}

// suiteCommand builds upstream's node e2e suite.
func suiteCommand(ctx context.Context, args []string) error {
	var c common
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	c.add(flags)
	if err := c.parse(flags, args); err != nil {
		return err
	}
	kube, _, err := c.kube()
	if err != nil {
		return err
	}
	module, err := release.Download(ctx, kube)
	if err != nil {
		return err
	}
	released, err := module.Released()
	if err != nil {
		return err
	}
	was, err := os.ReadFile(filepath.Join(c.root, "go.mod"))
	if err != nil {
		return err
	}
	gosum, err := os.ReadFile(filepath.Join(c.root, "go.sum"))
	if err != nil {
		return err
	}
	gomod, err := rewriteGoMod(string(was), kube, "")
	if err != nil {
		return err
	}
	ldflags := "-s -w " + release.LinkerFlags(kube, "", released)
	want := digest("suite 1", map[string][]byte{
		"go":      []byte(runtime.Version()),
		"target":  []byte(runtime.GOOS + "/" + runtime.GOARCH),
		"go.mod":  []byte(gomod),
		"go.sum":  gosum,
		"ldflags": []byte(ldflags),
	})
	modfile := filepath.Join(c.root, c.out, "kubetree", kube, "suite", "go.mod")
	for _, p := range suitePrograms {
		binary := filepath.Join(c.root, c.out, "bin", p.binary)
		fresh, err := want.matches(binary)
		if err != nil {
			return err
		}
		if fresh {
			fmt.Printf("suite: %s is up to date (%s)\n", c.rel(binary), kube)
			continue
		}
		fmt.Printf("suite: building %s of %s (minutes when Go's cache is cold)\n", p.binary, kube)
		// What its tests import is in nobody's go.sum yet: the copies take it up.
		for name, data := range map[string][]byte{"go.mod": []byte(gomod), "go.sum": gosum} {
			if _, err := dropin.WriteFile(filepath.Join(filepath.Dir(modfile), name), data); err != nil {
				return err
			}
		}
		args := append(p.args, "-modfile="+modfile, "-mod=mod", "-trimpath", "-ldflags="+ldflags, "-o", binary, release.KubeModule+p.pkg)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = c.root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("building %s of %s: %w", p.binary, kube, err)
		}
		if err := want.write(binary); err != nil {
			return err
		}
	}
	return nil
}

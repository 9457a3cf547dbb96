// SPDX-License-Identifier: Apache-2.0

// Package checkout makes what users have and a module does not: a Kubernetes
// checkout with its staging modules in place, vendored, in git. Upstream's git
// repository is not needed for it.
//
// It is made from the module tree of a release and the staging modules of the
// same release. Differences from upstream's own checkout: staging modules that
// are not published (samples that nothing imports) are struck from the
// workspace, and symbolic links are missing.
package checkout

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/podslice/podslice/hack/kubetree/release"
)

// stagingUse matches a line of go.work that names a staging module.
var stagingUse = regexp.MustCompile(`(?m)^\s*\./staging/src/(k8s\.io/\S+)\s*$`)

// Make puts the checkout of a release into dir, unless an earlier call did. It
// is made under another name and renamed, so a folder of that name is whole.
func Make(ctx context.Context, kube, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	fmt.Printf("checkout: making one of Kubernetes %s from modules\n", kube)
	m, err := release.Download(ctx, kube)
	if err != nil {
		return err
	}
	tree := dir + ".part"
	if err := os.RemoveAll(tree); err != nil {
		return err
	}
	if err := release.CopyWritable(ctx, m.Dir, tree); err != nil {
		return fmt.Errorf("copying %s to %s: %w", m.Dir, tree, err)
	}
	if err := addStaging(ctx, kube, tree); err != nil {
		return err
	}
	// The vendor folder that the module has holds a single file, which says
	// nothing; go work vendor writes all of it.
	if err := run(ctx, tree, "go", "work", "vendor"); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"config", "user.name", "podslice"},
		{"config", "user.email", "podslice@localhost"},
		{"config", "gc.auto", "0"},
		// Some modules ignore files of their own that they need.
		{"add", "--all", "--force"},
		{"commit", "-q", "-m", "Kubernetes " + kube},
	} {
		if err := run(ctx, tree, "git", args...); err != nil {
			return err
		}
	}
	return os.Rename(tree, dir)
}

// Clone makes a second checkout of the same content, unless it is there.
func Clone(ctx context.Context, from, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := run(ctx, filepath.Dir(from), "git", "clone", "-q", from, part); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

// addStaging copies the staging modules that go.work names to where it expects
// them, and strikes those that nobody published.
func addStaging(ctx context.Context, kube, tree string) error {
	work, err := os.ReadFile(filepath.Join(tree, "go.work"))
	if err != nil {
		return err
	}
	var paths []string
	for _, m := range stagingUse.FindAllStringSubmatch(string(work), -1) {
		paths = append(paths, m[1])
	}
	if len(paths) == 0 {
		return fmt.Errorf("%s names no staging modules", filepath.Join(tree, "go.work"))
	}
	modules, err := release.DownloadAll(ctx, paths, release.StagingVersion(kube))
	if err != nil {
		return err
	}
	var missing []string
	for _, m := range modules {
		if m.Error != "" {
			if !strings.HasPrefix(m.Path, "k8s.io/sample-") {
				return fmt.Errorf("staging module %s: %s", m.Path, m.Error)
			}
			fmt.Printf("checkout: without %s, which the module proxy does not have\n", m.Path)
			missing = append(missing, m.Path)
			continue
		}
		if err := release.CopyWritable(ctx, m.Dir, filepath.Join(tree, "staging", "src", filepath.FromSlash(m.Path))); err != nil {
			return fmt.Errorf("copying %s: %w", m.Dir, err)
		}
	}
	for _, name := range []string{"go.work", "go.mod"} {
		path := filepath.Join(tree, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strike(string(data), missing)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// strike removes the lines of a go.mod or go.work that name one of the modules.
func strike(text string, modules []string) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		for _, field := range strings.Fields(line) {
			if slices.Contains(modules, strings.TrimPrefix(field, "./staging/src/")) {
				return true
			}
		}
		return false
	}), "")
}

// run runs a command in a folder. Neither Go's settings nor git's may make the
// checkout another one on another machine.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s in %s: %w: %s", name, strings.Join(args, " "), dir, err, strings.TrimSpace(out.String()))
	}
	return nil
}

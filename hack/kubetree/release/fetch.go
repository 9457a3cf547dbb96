// SPDX-License-Identifier: Apache-2.0

// Package release knows the releases of Kubernetes that this repository's
// packages are for, how their versions are written, and how to get their source
// from the Go module proxy.
package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// Module is a downloaded Go module.
type Module struct {
	Path    string
	Version string
	Dir     string // read-only folder in the module cache
	Info    string // file with the release's time
	Error   string
}

// Download asks Go for a Kubernetes release, from the module cache or the proxy.
func Download(ctx context.Context, version string) (Module, error) {
	modules, err := DownloadAll(ctx, []string{KubeModule}, version)
	if err != nil {
		return Module{}, err
	}
	if m := modules[0]; m.Error != "" {
		return m, fmt.Errorf("Kubernetes %s cannot be had from the Go module proxy: %s", version, m.Error)
	}
	return modules[0], nil
}

// DownloadAll asks Go for modules at one version. A module that cannot be had
// says why in its Error.
func DownloadAll(ctx context.Context, paths []string, version string) ([]Module, error) {
	args := []string{"mod", "download", "-json"}
	for _, path := range paths {
		args = append(args, path+"@"+version)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	// Outside any module: this repository's own go.mod must not have a say.
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	// Go fails when one module does, and lists the others all the same.
	out, err := cmd.Output()
	var modules []Module
	for list := json.NewDecoder(bytes.NewReader(out)); list.More(); {
		var m Module
		if err := list.Decode(&m); err != nil {
			return nil, fmt.Errorf("go mod download of %s: %w", version, err)
		}
		modules = append(modules, m)
	}
	if len(modules) != len(paths) {
		return nil, fmt.Errorf("go mod download: %w: %d of %d modules at %s: %s", err, len(modules), len(paths), version, stderr.String())
	}
	return modules, nil
}

// Released returns the time of the module's release, RFC 3339.
func (m Module) Released() (string, error) {
	data, err := os.ReadFile(m.Info)
	if err != nil {
		return "", fmt.Errorf("release time of %s %s: %w", KubeModule, m.Version, err)
	}
	var info struct{ Time string }
	if err := json.Unmarshal(data, &info); err != nil {
		return "", fmt.Errorf("release time of %s %s: %s: %w", KubeModule, m.Version, m.Info, err)
	}
	return info.Time, nil
}

// CopyTree copies the module to tree, unless an earlier run did. The copy is
// made under another name and renamed, so a folder with the right name is whole.
func CopyTree(ctx context.Context, m Module, tree string) error {
	if _, err := os.Stat(tree); err == nil {
		return nil
	}
	tmp := tree + ".part"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := CopyWritable(ctx, m.Dir, tmp); err != nil {
		return fmt.Errorf("copying %s to %s: %w", m.Dir, tmp, err)
	}
	return os.Rename(tmp, tree)
}

// CopyWritable copies a folder whose files and folders are read-only, as the
// module cache's are, into one that can be written to and deleted.
func CopyWritable(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}

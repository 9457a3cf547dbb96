// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// uncommitted returns what git does not have of some directories of cm, with
// git's two letters for each file: changed, staged, untracked or ignored. A tree
// that is no git checkout of its own has nothing to tell.
func uncommitted(tree string, dirs []string) (map[string]string, error) {
	// In a worktree or submodule .git is a file.
	if _, err := os.Lstat(filepath.Join(tree, ".git")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	args := []string{"-C", tree, "--no-optional-locks", "status", "--porcelain", "-z", "--no-renames",
		"--untracked-files=all", "--ignored", "--"}
	for _, dir := range dirs {
		args = append(args, CMDir+"/"+dir)
	}
	cmd := exec.Command("git", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("whether %s has changes that are not committed: git: %w: %s", tree, err, strings.TrimSpace(stderr.String()))
	}
	pending := map[string]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if len(entry) < 4 {
			continue
		}
		name := strings.TrimPrefix(entry[3:], CMDir+"/")
		pending[name] = fmt.Sprintf("not committed (git status %q)", entry[:2])
	}
	return pending, nil
}

// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// inventory is what some directories of a pkg/kubelet/cm hold. Paths are
// slash-separated and beneath it.
type inventory struct {
	dirs    []string          // the directories, there or not
	files   map[string]string // digest by path
	folders []string          // outer ones first
	litter  []string          // half-written files of a run that was cut short
}

// takeInventory reads the directories; one that is not there holds nothing.
func takeInventory(base string, dirs []string) (inventory, error) {
	found := inventory{dirs: dirs, files: map[string]string{}}
	for _, dir := range dirs {
		top := filepath.Join(base, dir)
		if _, err := os.Lstat(top); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(base, path)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			switch {
			case d.IsDir():
				found.folders = append(found.folders, rel)
				return nil
			case !d.Type().IsRegular():
				// Following a link could lead out of the tree.
				return fmt.Errorf("%s is neither a file nor a folder: it cannot be replaced safely", path)
			case d.Name() == tmpName:
				found.litter = append(found.litter, rel)
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found.files[rel] = digestOf(data)
			return nil
		})
		if err != nil {
			return inventory{}, err
		}
	}
	return found, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

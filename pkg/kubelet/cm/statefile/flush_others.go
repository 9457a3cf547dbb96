// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package statefile

import (
	"errors"
	"os"
)

// flushFolder makes a rename in the folder durable.
func flushFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

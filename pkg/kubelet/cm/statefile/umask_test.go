// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package statefile

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestModeWhateverTheUmask: the file is its owner's to read and write, and nobody
// else's, be it new or there before with another mode, and so is one that is kept.
func TestModeWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o777} {
		f := File{Dir: t.TempDir(), Name: "state"}
		require.NoError(t, os.WriteFile(f.Dir+"/state", nil, 0o644))
		require.NoError(t, os.WriteFile(f.Dir+"/.state.new", nil, 0o666))
		kept, err := f.Keep()
		require.NoError(t, err)
		before := syscall.Umask(umask)
		err = f.Replace([]byte("content"))
		second := File{Dir: f.Dir, Name: "another"}
		errSecond := second.Replace([]byte("content"))
		syscall.Umask(before)
		require.NoError(t, err)
		require.NoError(t, errSecond)
		for _, path := range []string{f.Path(), second.Path(), kept} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "umask %o", umask)
		}
	}
}

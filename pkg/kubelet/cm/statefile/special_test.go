// SPDX-License-Identifier: Apache-2.0

//go:build !windows

package statefile

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWhatIsNoFile: whatever is in the place of the file, it is told at once, kept,
// and a file takes its place.
func TestWhatIsNoFile(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"huge": func(path string) error {
			if err := os.WriteFile(path, nil, 0o666); err != nil {
				return err
			}
			return os.Truncate(path, 1<<40) // it takes no room
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := File{Dir: t.TempDir(), Name: "state"}
			require.NoError(t, put(f.Path()))
			done := make(chan error, 1)
			go func() { _, err := f.Read(); done <- err }()
			select {
			case err := <-done:
				require.ErrorContains(t, err, f.Path())
			case <-time.After(10 * time.Second):
				t.Fatal("reading it does not end")
			}
			kept, err := f.Keep()
			require.NoError(t, err)
			if name != "folder" { // that is moved
				again, err := f.Keep()
				require.NoError(t, err)
				require.Equal(t, kept, again)
			}
			require.NoError(t, f.Replace([]byte("new")))
			_, err = os.Lstat(kept)
			require.NoError(t, err)
			data, err := f.Read()
			require.NoError(t, err)
			require.Equal(t, "new", string(data))
		})
	}
}

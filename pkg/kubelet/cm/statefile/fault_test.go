// SPDX-License-Identifier: Apache-2.0

package statefile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/test/faultfs"
)

var file = statefile.File{Dir: "/var", Name: "state"}

func use(t *testing.T, fs *faultfs.FS) { statefile.Use(fs) }

func read(t *testing.T, fs *faultfs.FS) string {
	use(t, fs)
	data, err := file.Read()
	require.NoError(t, err)
	return string(data)
}

// written is a file system with the old content, and with what a crash has left.
func written(t *testing.T) *faultfs.FS {
	fs := faultfs.New()
	use(t, fs)
	require.NoError(t, file.Replace([]byte("the old content")))
	_, err := fs.Create("/var/.state.new")
	require.NoError(t, err)
	return fs
}

// TestEveryFault has each call of a replacement fail in each way: then the old
// content is there, or the new, whole; it is the old one if the error does not say
// that this is not sure; and the next replacement succeeds.
func TestEveryFault(t *testing.T) {
	before := statefile.Use(faultfs.New())
	defer statefile.Use(before)
	fs := written(t)
	fs.Arm(-1, "")
	require.NoError(t, file.Replace([]byte("the new content!")))
	calls := fs.Calls()
	require.Equal(t, "create write chmod sync close rename flush folder", strings.Join(calls, " "))
	require.Equal(t, os.FileMode(0o600), fs.Mode("/var/state"))
	require.Equal(t, []string{"/var/state"}, fs.Names())

	for at, call := range calls {
		for _, kind := range faultfs.Kinds {
			if kind == faultfs.Short && call != "write" {
				continue
			}
			t.Run(fmt.Sprint(call, "/", kind), func(t *testing.T) {
				fs := written(t)
				fs.Arm(at, kind)
				err := file.Replace([]byte("the new content!"))
				require.Error(t, err)
				fs.Arm(-1, "")
				if !fs.Dead() {
					require.ErrorContains(t, err, "/var/state")
					want := "the old content"
					if strings.Contains(err.Error(), statefile.ErrUnsure.Error()) {
						want = "the new content!"
					}
					require.Equal(t, want, read(t, fs))
				}
				for i, next := range append(fs.PowerFailures(), fs.Restart()) {
					content := read(t, next)
					require.Contains(t, []string{"the old content", "the new content!"}, content, "power failure %d", i)
					if !fs.Dead() && call != "flush folder" {
						require.Equal(t, "the old content", content)
					}
					require.NoError(t, file.Replace([]byte("newer")))
					for _, last := range next.PowerFailures() {
						require.Equal(t, "newer", read(t, last))
						require.Equal(t, []string{"/var/state"}, last.Names())
						require.Equal(t, os.FileMode(0o600), last.Mode("/var/state"))
					}
				}
			})
		}
	}
}

// TestKeepUnderFaults: a damaged file is there, under its own name or another,
// whatever happens while it is kept.
func TestKeepUnderFaults(t *testing.T) {
	before := statefile.Use(faultfs.New())
	defer statefile.Use(before)
	fs := written(t)
	fs.Arm(-1, "")
	kept, err := file.Keep()
	require.NoError(t, err)
	again, err := file.Keep()
	require.NoError(t, err)
	require.Equal(t, kept, again, "the same file is kept once")
	calls := fs.Calls()

	for at := range calls {
		for _, kind := range faultfs.Kinds {
			fs := written(t)
			fs.Arm(at, kind)
			_, _ = file.Keep()
			fs.Arm(-1, "")
			for _, next := range append(fs.PowerFailures(), fs.Restart()) {
				use(t, next)
				found := false
				for _, name := range next.Names() {
					data, err := next.ReadFile(name)
					require.NoError(t, err)
					found = found || string(data) == "the old content"
				}
				require.True(t, found, "call %d, %s: %s", at, kind, next)
			}
		}
	}

	// Another damaged file of the same time has a name of its own.
	statefile.Use(before)
	dir := t.TempDir()
	f := statefile.File{Dir: dir, Name: "state"}
	for i := range 2 {
		require.NoError(t, os.WriteFile(f.Path(), []byte{byte(i)}, 0o600))
		info, err := os.Stat(dir)
		require.NoError(t, err)
		require.NoError(t, os.Chtimes(f.Path(), info.ModTime().Truncate(1<<40), info.ModTime().Truncate(1<<40)))
		_, err = f.Keep()
		require.NoError(t, err)
		require.NoError(t, os.Remove(f.Path()))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}

// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplaceAndRead(t *testing.T) {
	f := File{Dir: t.TempDir(), Name: "state"}

	data, err := f.Read()
	require.NoError(t, err)
	require.Nil(t, data, "a missing file is not an empty file")

	require.NoError(t, os.WriteFile(f.Dir+"/.state.new", []byte("left by a crash, and longer"), 0o644))
	require.NoError(t, f.Replace([]byte("one")))
	require.NoError(t, f.Replace([]byte("two")))

	data, err = f.Read()
	require.NoError(t, err)
	require.Equal(t, "two", string(data))

	info, err := os.Stat(f.Path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	entries, err := os.ReadDir(f.Dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file may be left")
}

func TestReplaceFailureKeepsTheOldContent(t *testing.T) {
	f := File{Dir: t.TempDir(), Name: "state"}
	require.NoError(t, f.Replace([]byte("old")))
	// A folder in the temporary file's place makes the write fail for root too.
	require.NoError(t, os.Mkdir(f.Dir+"/.state.new", 0o755))
	require.NoError(t, os.WriteFile(f.Dir+"/.state.new/busy", nil, 0o600))

	err := f.Replace([]byte("new"))
	require.ErrorContains(t, err, f.Path())

	data, err := f.Read()
	require.NoError(t, err)
	require.Equal(t, "old", string(data))
}

func TestEmptyFileIsNotAMissingFile(t *testing.T) {
	f := File{Dir: t.TempDir(), Name: "state"}
	require.NoError(t, os.WriteFile(f.Path(), nil, 0o600))
	data, err := f.Read()
	require.NoError(t, err)
	require.NotNil(t, data)
	require.Empty(t, data)
}

// TestDamageTellsWhatToDo: the command that is told is for the file that is kept,
// or for the one in place as long as none can be.
func TestDamageTellsWhatToDo(t *testing.T) {
	f := File{Dir: t.TempDir(), Name: "state"}
	require.NoError(t, os.WriteFile(f.Path(), []byte("damaged"), 0o600))
	d := f.NewDamage(errors.New("no JSON"), "")
	require.FileExists(t, d.Kept)
	require.Equal(t, "podslice state repair "+d.Kept+" --to "+filepath.Join(f.Dir, "repaired"), d.RepairCommand())

	gone := File{Dir: f.Dir, Name: "gone"}
	d = gone.NewDamage(errors.New("it cannot be read"), "")
	require.Error(t, d.KeepErr)
	require.Equal(t, "podslice state repair --write "+gone.Path(), d.RepairCommand())
}

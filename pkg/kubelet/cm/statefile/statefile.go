// SPDX-License-Identifier: Apache-2.0

// Package statefile keeps a manager's state file: whole replacements only, each
// of which either happens durably or leaves the file as it was.
//
// A replacement is written to a temporary file beside the target, flushed to
// the disk, renamed over the target, and the folder is flushed so that the
// rename itself survives a power failure. A crash at any point leaves the old
// content or the new, never a mixture; a temporary file that a crash left
// behind is removed by the next replacement.
//
// A file that turns out to be damaged is kept under another name, and what is
// whole of it can be read; see File.Keep and Fields.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ErrUnsure says that the new content is in place but not flushed: a power
// failure may bring back the old.
var ErrUnsure = errors.New("the folder could not be flushed")

// File names a state file.
type File struct {
	// Dir is an existing folder.
	Dir string
	// Name is the file's name in Dir.
	Name string
}

// Path is the file's whole path.
func (f File) Path() string { return filepath.Join(f.Dir, f.Name) }

// Read returns the content, or nil and no error when there is no file.
func (f File) Read() ([]byte, error) {
	data, err := calls().ReadFile(f.Path())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read state file: %w", err)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// Replace makes data the content. Only the file's owner may read it, whatever
// the umask is. On an error the old content is still in place, unless the error
// is ErrUnsure.
func (f File) Replace(data []byte) (err error) {
	temporary := filepath.Join(f.Dir, "."+f.Name+".new")
	defer func() {
		if err != nil {
			_ = calls().Remove(temporary)
			err = fmt.Errorf("cannot replace state file %q: %w", f.Path(), err)
		}
	}()
	if err := writeThrough(temporary, data); err != nil {
		return err
	}
	if err := calls().Rename(temporary, f.Path()); err != nil {
		return err
	}
	if err := calls().FlushFolder(f.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsure, err)
	}
	return nil
}

func writeThrough(path string, data []byte) error {
	file, err := calls().Create(path)
	if err != nil {
		return err
	}
	count, err := file.Write(data)
	if err == nil && count < len(data) {
		err = io.ErrShortWrite
	}
	if err == nil {
		// A temporary file left by a crash keeps the mode it was made with.
		err = file.Chmod(0o600)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

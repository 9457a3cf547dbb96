// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Keep gives the file, which is damaged, a second name that nobody writes to:
// its own, ".damaged-" and when it was last written. It returns the path. The
// file itself stays in place, so that a crash before the next Replace leaves
// everything to find again; found again, it gets no third name. Where files can
// have one name only, it is moved. Files that are kept are never deleted, and are
// for their owner alone.
func (f File) Keep() (string, error) {
	written, err := calls().Modified(f.Path())
	if err == nil {
		err = calls().Restrict(f.Path())
	}
	if err != nil {
		return "", fmt.Errorf("cannot keep damaged state file: %w", err)
	}
	base := f.Path() + ".damaged-" + written.UTC().Format("20060102T150405.000000000Z")
	for i := 1; ; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		taken, err := f.keepAs(name)
		if err != nil {
			return "", fmt.Errorf("cannot keep damaged state file %q as %q: %w", f.Path(), name, err)
		}
		if !taken {
			return name, nil
		}
	}
}

// keepAs reports whether the name is another file's.
func (f File) keepAs(name string) (taken bool, err error) {
	switch err := calls().Link(f.Path(), name); {
	case err == nil:
		return false, calls().FlushFolder(f.Dir)
	case errors.Is(err, os.ErrExist):
		// What neither can be read of, with the same time, is the same.
		kept, errKept := calls().ReadFile(name)
		content, errContent := calls().ReadFile(f.Path())
		return (errKept == nil) != (errContent == nil) || !bytes.Equal(kept, content), nil
	}
	// Folders, and file systems without hard links. Nothing has the name, since
	// looking it up fails.
	if _, err := calls().Modified(name); err == nil {
		return true, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := calls().Rename(f.Path(), name); err != nil {
		return false, err
	}
	return false, calls().FlushFolder(f.Dir)
}

// Damage says that a state file could not be read as it is.
type Damage struct {
	Path string
	// Err is what is wrong.
	Err error
	// Part is what could be read all the same; empty means nothing.
	Part string
	// Kept is under which name the file is kept. It is empty if that failed with
	// KeepErr; then the file is not written before it can be kept.
	Kept    string
	KeepErr error
}

// Error implements error.
func (d *Damage) Error() string {
	text := fmt.Sprintf("state file %q is damaged: %v; ", d.Path, d.Err)
	if d.Part == "" {
		text += "nothing of it can be read"
	} else {
		text += "what can be read is " + d.Part
	}
	if d.KeepErr != nil {
		return fmt.Sprintf("%s; it could not be kept under another name yet: %v", text, d.KeepErr)
	}
	return fmt.Sprintf("%s; it is kept as %q", text, d.Kept)
}

// RepairCommand is what may read more of the file than the kubelet, which believes
// nothing without a checksum. Of a file that is kept it makes another, which whoever
// looks at it can put in place while the kubelet is stopped.
func (d *Damage) RepairCommand() string {
	if d.Kept == "" {
		return "podslice state repair --write " + d.Path
	}
	return "podslice state repair " + d.Kept + " --to " + filepath.Join(filepath.Dir(d.Path), "repaired")
}

// Unwrap returns what is wrong.
func (d *Damage) Unwrap() error { return d.Err }

// NewDamage keeps the file and tells about it.
func (f File) NewDamage(err error, part string) *Damage {
	d := &Damage{Path: f.Path(), Err: err, Part: part}
	d.Kept, d.KeepErr = f.Keep()
	return d
}

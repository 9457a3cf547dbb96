// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// maxLinks bounds how many links one path may lead over, so that links in a circle
// end.
const maxLinks = 40

// tree is the files of an archive in memory. Links are followed within it, and
// nothing else is there. It is an fs.FS once it is complete.
type tree struct{ root *entry }

// entry is a folder, a file or a link.
type entry struct {
	mode fs.FileMode // fs.ModeDir, 0, fs.ModeSymlink
	text []byte      // of a file
	to   string      // of a link
	in   map[string]*entry
}

func newTree() *tree { return &tree{root: newFolder()} }

func newFolder() *entry { return &entry{mode: fs.ModeDir, in: map[string]*entry{}} }

// put adds an entry, and the folders above it. What was there is replaced, as it
// is when an archive is unpacked, except that nothing is put below a file or link.
func (t *tree) put(name string, e *entry) error {
	at := t.root
	parts := strings.Split(name, "/")
	for i, part := range parts[:len(parts)-1] {
		next := at.in[part]
		if next == nil {
			next = newFolder()
			at.in[part] = next
		}
		if next.mode != fs.ModeDir {
			return fmt.Errorf("%s is below %s, which is not a folder", name, strings.Join(parts[:i+1], "/"))
		}
		at = next
	}
	last := parts[len(parts)-1]
	if was := at.in[last]; was != nil && was.mode == fs.ModeDir && e.mode == fs.ModeDir {
		return nil
	}
	at.in[last] = e
	return nil
}

var (
	errLinks   = fmt.Errorf("more than %d links", maxLinks)
	errOutside = errors.New("the link leads out of the archive")
)

// get finds what a path leads to, over links. Absolute links begin at the root of
// the archive.
func (t *tree) get(name string) (*entry, error) {
	links := 0
	above := []*entry{t.root} // the folders that lead to where we are
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		at := above[len(above)-1]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(above) == 1 {
				return nil, errOutside
			}
			above = above[:len(above)-1]
			continue
		}
		if at.mode != fs.ModeDir {
			return nil, fs.ErrNotExist
		}
		next := at.in[part]
		switch {
		case next == nil:
			return nil, fs.ErrNotExist
		case next.mode == fs.ModeSymlink:
			if links++; links > maxLinks {
				return nil, errLinks
			}
			if path.IsAbs(next.to) {
				above = above[:1]
			}
			rest = append(strings.Split(next.to, "/"), rest...)
		default:
			above = append(above, next)
		}
	}
	return above[len(above)-1], nil
}

// Open implements fs.FS.
func (t *tree) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	e, err := t.get(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	o := info{path.Base(name), e}
	if e.mode != fs.ModeDir {
		return &openFile{info: o, Reader: bytes.NewReader(e.text)}, nil
	}
	folder := &openFolder{info: o}
	for _, child := range slices.Sorted(maps.Keys(e.in)) {
		folder.rest = append(folder.rest, fs.FileInfoToDirEntry(info{child, e.in[child]}))
	}
	return folder, nil
}

// info describes an entry.
type info struct {
	name string
	e    *entry
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return int64(len(i.e.text)) }
func (i info) Mode() fs.FileMode          { return i.e.mode | 0o444 }
func (i info) ModTime() time.Time         { return time.Time{} }
func (i info) IsDir() bool                { return i.e.mode == fs.ModeDir }
func (i info) Sys() any                   { return nil }
func (i info) Stat() (fs.FileInfo, error) { return i, nil }
func (i info) Close() error               { return nil }

type openFile struct {
	info
	*bytes.Reader
}

func (f *openFile) Size() int64 { return f.info.Size() }

type openFolder struct {
	info
	rest []fs.DirEntry
}

func (f *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("is a folder")}
}

func (f *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(f.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.rest) {
		n = len(f.rest)
	}
	list := f.rest[:n]
	f.rest = f.rest[n:]
	return list, nil
}

// SPDX-License-Identifier: Apache-2.0

// Package faultfs is a file system in memory for the calls of package statefile.
// It fails, or ends the process, at a call of the caller's choice, and knows what
// a power failure leaves of what was not flushed.
package faultfs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
)

// ErrDead is what every call returns after the process has ended.
var ErrDead = errors.New("the process has ended")

// Kind is what happens at a call.
type Kind string

const (
	// IO is an error of the device, Full a full disk, ReadOnly and Permission
	// refusals. The call has no effect; a write of a full disk is short.
	IO         Kind = "input/output error"
	Full       Kind = "disk full"
	ReadOnly   Kind = "read-only file system"
	Permission Kind = "permission denied"
	// Short is a write that is short and says so by its count alone.
	Short Kind = "short write"
	// CrashBefore and CrashAfter end the process before and after the call.
	CrashBefore Kind = "crash before"
	CrashAfter  Kind = "crash after"
)

// Kinds are all kinds.
var Kinds = []Kind{IO, Full, ReadOnly, Permission, Short, CrashBefore, CrashAfter}

var errnos = map[Kind]error{IO: syscall.EIO, Full: syscall.ENOSPC, ReadOnly: syscall.EROFS, Permission: syscall.EACCES}

// inode is a file. It is not changed after Sync but by another Create.
type inode struct {
	data  []byte
	flush bool // whether data is durable
	mode  os.FileMode
	time  int64
}

// FS is a file system. Its zero value is not ready; see New.
type FS struct {
	mu    sync.Mutex
	names map[string]*inode
	// durable are the names after the last flush of the folder, pending the
	// changes since, in order.
	durable map[string]*inode
	pending []map[string]*inode
	clock   int64

	// calls counts the changing calls since Arm, log names them.
	calls int
	log   []string
	at    int
	kind  Kind
	dead  bool
}

// New returns an empty file system.
func New() *FS {
	return &FS{names: map[string]*inode{}, durable: map[string]*inode{}, at: -1}
}

// Arm has kind happen at the call with this number, counted from 0; -1 is none.
func (f *FS) Arm(at int, kind Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.log, f.at, f.kind = 0, nil, at, kind
}

// Calls are the calls since Arm, by name.
func (f *FS) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Dead reports whether the process has ended.
func (f *FS) Dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// Restart is the file system as the next process finds it.
func (f *FS) Restart() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &FS{names: maps.Clone(f.names), durable: maps.Clone(f.durable), pending: slices.Clone(f.pending), clock: f.clock, at: -1}
	return next.detached()
}

// PowerFailures are the file systems that a power failure can leave: of the names
// that were not flushed any number of the first, and of the contents that were not
// flushed nothing, a half, or all.
func (f *FS) PowerFailures() []*FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	var left []*FS
	for count := range len(f.pending) + 1 {
		names := f.durable
		if count > 0 {
			names = f.pending[count-1]
		}
		for part := range 3 {
			next := &FS{names: maps.Clone(names), durable: maps.Clone(names), clock: f.clock, at: -1}
			next = next.detached()
			for _, file := range next.names {
				if !file.flush {
					file.data = file.data[:len(file.data)*part/2]
					file.flush = true
				}
			}
			left = append(left, next)
		}
	}
	return left
}

// detached gives the file system files of its own.
func (f *FS) detached() *FS {
	own := map[*inode]*inode{}
	detach := func(names map[string]*inode) map[string]*inode {
		clone := make(map[string]*inode, len(names))
		for name, file := range names {
			if own[file] == nil {
				own[file] = &inode{data: bytes.Clone(file.data), flush: file.flush, mode: file.mode, time: file.time}
			}
			clone[name] = own[file]
		}
		return clone
	}
	f.names, f.durable = detach(f.names), detach(f.durable)
	for i, names := range f.pending {
		f.pending[i] = detach(names)
	}
	return f
}

// Names lists the files.
func (f *FS) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.names))
}

// Mode is a file's mode.
func (f *FS) Mode(path string) os.FileMode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[path].mode
}

// step is one changing call. It reports what of it happens.
func (f *FS) step(name string, do func() error) error {
	if f.dead {
		return ErrDead
	}
	call := f.calls
	f.calls++
	f.log = append(f.log, name)
	if call != f.at {
		return do()
	}
	switch f.kind {
	case CrashBefore:
		f.dead = true
		return ErrDead
	case CrashAfter:
		_ = do()
		f.dead = true
		return ErrDead
	case Short:
		return do()
	}
	return &os.PathError{Op: name, Path: "state", Err: errnos[f.kind]}
}

// named notes a change of the names.
func (f *FS) named() { f.pending = append(f.pending, maps.Clone(f.names)) }

// ReadFile implements statefile.System.
func (f *FS) ReadFile(path string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return nil, ErrDead
	}
	file, ok := f.names[path]
	if !ok {
		return nil, &os.PathError{Op: "read", Path: path, Err: os.ErrNotExist}
	}
	return append([]byte{}, file.data...), nil
}

// Modified implements statefile.System.
func (f *FS) Modified(path string) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, ok := f.names[path]
	if !ok {
		return time.Time{}, &os.PathError{Op: "stat", Path: path, Err: os.ErrNotExist}
	}
	return time.Unix(file.time, 0), nil
}

// Restrict implements statefile.System.
func (f *FS) Restrict(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.step("restrict", func() error {
		if f.names[path] == nil {
			return &os.PathError{Op: "chmod", Path: path, Err: os.ErrNotExist}
		}
		f.names[path].mode = 0o600
		return nil
	})
}

// Create implements statefile.System. The umask takes nothing away.
func (f *FS) Create(path string) (statefile.Writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var file *inode
	err := f.step("create", func() error {
		f.clock++
		file = f.names[path]
		if file == nil {
			file = &inode{mode: 0o666}
			f.names[path] = file
			f.named()
		}
		file.data, file.flush, file.time = nil, false, f.clock
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &writer{f, file}, nil
}

// Rename implements statefile.System.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.step("rename", func() error {
		file, ok := f.names[from]
		if !ok {
			return &os.PathError{Op: "rename", Path: from, Err: os.ErrNotExist}
		}
		delete(f.names, from)
		f.names[to] = file
		f.named()
		return nil
	})
}

// Link implements statefile.System.
func (f *FS) Link(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.step("link", func() error {
		if f.names[to] != nil {
			return &os.PathError{Op: "link", Path: to, Err: os.ErrExist}
		}
		f.names[to] = f.names[from]
		f.named()
		return nil
	})
}

// Remove implements statefile.System.
func (f *FS) Remove(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.step("remove", func() error {
		if f.names[path] == nil {
			return &os.PathError{Op: "remove", Path: path, Err: os.ErrNotExist}
		}
		delete(f.names, path)
		f.named()
		return nil
	})
}

// FlushFolder implements statefile.System.
func (f *FS) FlushFolder(string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.step("flush folder", func() error {
		f.durable, f.pending = maps.Clone(f.names), nil
		return nil
	})
}

type writer struct {
	fs   *FS
	file *inode
}

func (w *writer) Write(data []byte) (count int, err error) {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	half := w.fs.calls == w.fs.at && (w.fs.kind == Short || w.fs.kind == Full || w.fs.kind == CrashBefore)
	if half {
		data = data[:len(data)/2]
		w.file.data = append(w.file.data, data...)
	}
	err = w.fs.step("write", func() error {
		if !half {
			w.file.data = append(w.file.data, data...)
		}
		return nil
	})
	return len(data), err
}

func (w *writer) Chmod(mode os.FileMode) error {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	return w.fs.step("chmod", func() error { w.file.mode = mode; return nil })
}

func (w *writer) Sync() error {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	return w.fs.step("sync", func() error { w.file.flush = true; return nil })
}

func (w *writer) Close() error {
	w.fs.mu.Lock()
	defer w.fs.mu.Unlock()
	return w.fs.step("close", func() error { return nil })
}

// String lists the files and their sizes, for failures.
func (f *FS) String() string {
	var b strings.Builder
	for _, name := range f.Names() {
		fmt.Fprintf(&b, "%s: %d bytes\n", name, len(f.names[name].data))
	}
	return b.String()
}

// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// System is the calls of the operating system that this package makes. It is
// there so that tests can have each of them fail.
type System interface {
	// ReadFile fails with os.ErrNotExist when there is no file, and for what is no
	// file, or larger than MaxSize.
	ReadFile(path string) ([]byte, error)
	// Modified is when the file was last written.
	Modified(path string) (time.Time, error)
	// Restrict leaves a file to its owner; whatever else has the name stays as it
	// is.
	Restrict(path string) error
	// Create makes an empty file that only its owner may read, or empties one.
	Create(path string) (Writer, error)
	Rename(from, to string) error
	// Link gives a file a second name; it fails with os.ErrExist when that is
	// taken.
	Link(from, to string) error
	Remove(path string) error
	// FlushFolder makes the names in the folder durable.
	FlushFolder(dir string) error
}

// Writer is a file that is written.
type Writer interface {
	io.WriteCloser
	Chmod(mode os.FileMode) error
	// Sync makes the content durable.
	Sync() error
}

var system atomic.Pointer[System]

func init() { Use(operatingSystem{}) }

// Use has everything done by another system, for tests, and returns what was used
// before.
func Use(s System) System {
	before := system.Swap(&s)
	if before == nil {
		return nil
	}
	return *before
}

func calls() System { return *system.Load() }

// operatingSystem makes the calls.
type operatingSystem struct{}

// MaxSize bounds what is read: a kubelet's file has some hundred bytes for each
// container.
const MaxSize = 64 << 20

// ReadFile does not wait for what a pipe or a device may have to say, nor read
// without end.
func (operatingSystem) ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file, but %s", path, info.Mode())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = fmt.Errorf("%s is larger than %d bytes", path, MaxSize)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (operatingSystem) Modified(path string) (time.Time, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

func (operatingSystem) Restrict(path string) error {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return os.Chmod(path, 0o600)
}

func (operatingSystem) Create(path string) (Writer, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

func (operatingSystem) Rename(from, to string) error { return os.Rename(from, to) }
func (operatingSystem) Link(from, to string) error   { return os.Link(from, to) }
func (operatingSystem) Remove(path string) error     { return os.Remove(path) }
func (operatingSystem) FlushFolder(dir string) error { return flushFolder(dir) }

// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/pkg/state/checksum"
)

// CPUFileName and MemoryFileName are the files' names in the kubelet's root folder.
const (
	CPUFileName    = "cpu_manager_state"
	MemoryFileName = "memory_manager_state"
)

// Files are the two state files; one that was not given, or is not there, is nil.
type Files struct {
	CPU    *CPUFile
	Memory *MemoryFile
}

// part is one of the two parts of a file, or all of an older file.
type part[T any] struct {
	name              string
	written, computed checksum.Checksum
	content           T
	// err says why there is no content.
	err error
}

func (p *part[T]) readable() bool { return p != nil && p.err == nil }
func (p *part[T]) sound() bool    { return p.readable() && p.written == p.computed }

// file is what both files have in common: the parts, and the version, which is 0
// for one that is in no known format.
type file[T any] struct {
	Path         string
	Raw          []byte
	Version      int
	inline, data *part[T]
	// broken says why the file as a whole is no JSON object, although parts of it
	// may be read, unknown what in it is of a newer version.
	broken, unknown error
}

// used is the part that counts: Data where the file has it, as long as that is
// sound, else the other if that is; nil when none can be read.
func (f *file[T]) used() *part[T] {
	for _, ok := range []func(*part[T]) bool{(*part[T]).sound, (*part[T]).readable} {
		for _, p := range []*part[T]{f.data, f.inline} {
			if ok(p) {
				return p
			}
		}
	}
	return nil
}

func (f *file[T]) parts() (list []*part[T]) {
	for _, p := range []*part[T]{f.inline, f.data} {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

func (f *file[T]) base() string { return filepath.Base(f.Path) }

// findings begins a list about a part.
func (f *file[T]) findings(p *part[T]) *findings {
	l := &findings{file: f.base()}
	if p != nil && f.data != nil {
		l.part = p.name
	}
	return l
}

// integrity is what is wrong with the parts as such.
func (f *file[T]) integrity() (list []Finding) {
	if f.broken != nil {
		l := f.findings(nil)
		l.add(Unreadable, "", "", "%v", f.broken)
		list = l.list
	}
	for _, p := range f.parts() {
		l := f.findings(p)
		switch {
		case p.err != nil && p.err == f.broken:
		case p.err != nil:
			l.add(Unreadable, "", "", "%v", p.err)
		case p.written != p.computed:
			l.add(BadChecksum, "", "", "the file has checksum %d, the content has %d", p.written, p.computed)
		}
		list = append(list, l.list...)
	}
	sound := false
	for _, p := range f.parts() {
		sound = sound || p.sound()
	}
	for i := range list {
		list[i].alone = !sound
	}
	if f.unknown != nil {
		l := f.findings(nil)
		l.add(NewerVersion, "", "", "%v", f.unknown)
		list = append(list, l.list...)
	}
	return list
}

// checkKnown looks for what is of a newer version, in a file that is not damaged.
func (f *file[T]) checkKnown(outer, data any) {
	for _, p := range f.parts() {
		if f.broken != nil || !p.sound() {
			return
		}
	}
	f.unknown = statefile.CheckKnown(f.Raw, outer, "data", data)
}

// Read reads the files: of a folder both, as far as they are there, else files of
// any name, which are told apart by what they have in them.
func Read(paths ...string) (Files, error) {
	var files Files
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return Files{}, err
		}
		if !info.IsDir() {
			if err := files.add(path); err != nil {
				return Files{}, err
			}
			continue
		}
		found := false
		for _, name := range []string{CPUFileName, MemoryFileName} {
			err := files.add(filepath.Join(path, name))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return Files{}, err
			}
			found = found || err == nil
		}
		if !found {
			return Files{}, fmt.Errorf("%s has neither %s nor %s", path, CPUFileName, MemoryFileName)
		}
	}
	return files, nil
}

func (f *Files) add(path string) error {
	raw, err := readBounded(path)
	if err != nil {
		return err
	}
	top, _ := fields(raw)
	memory := top["machineState"] != nil
	if !memory && top["defaultCpuSet"] == nil {
		switch name := strings.ToLower(filepath.Base(path)); {
		case strings.Contains(name, "memory"):
			memory = true
		case !strings.Contains(name, "cpu"):
			return fmt.Errorf("%s is no state file: neither its name nor its content (a %q or a %q) tells which manager's it is", path, "defaultCpuSet", "machineState")
		}
	}
	switch {
	case memory && f.Memory != nil:
		return fmt.Errorf("%s and %s are both files of the memory manager", f.Memory.Path, path)
	case !memory && f.CPU != nil:
		return fmt.Errorf("%s and %s are both files of the CPU manager", f.CPU.Path, path)
	case memory:
		f.Memory = readMemory(path, raw)
	default:
		f.CPU = readCPU(path, raw)
	}
	return nil
}

var errFollows = errors.New("something follows the JSON object")

// fields returns the members of a JSON object, also of one that is cut off: all
// that stand in it whole. The error says what is wrong with the rest.
func fields(raw []byte) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("the file is empty")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("the file is no JSON object; it begins with %.20q", raw)
	}
	members := map[string]json.RawMessage{}
	broken := func(err error) error {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("the file is cut off after %d bytes", len(raw))
		}
		return fmt.Errorf("the file is no JSON from byte %d on: %w", d.InputOffset(), err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return members, broken(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return members, broken(err)
		}
		members[name.(string)] = value
	}
	if _, err := d.Token(); err != nil {
		return members, broken(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return members, fmt.Errorf("%w at byte %d", errFollows, d.InputOffset())
	}
	return members, nil
}

// decode reads members of the object into a value.
func decode(members map[string]json.RawMessage, into any) error {
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// readData reads the part called data, if the file has it. A part of which only
// one of the two members is there was cut off, and so is one that is not there in
// a file that is cut off behind the inline part, which ends with its checksum.
func readData[D any](members map[string]json.RawMessage, whole error) (p *part[struct{}], data D, ok bool) {
	cut := whole != nil && !errors.Is(whole, errFollows) && members["checksum"] != nil
	if members["data"] == nil && members["dataChecksum"] == nil && !cut {
		return nil, data, false
	}
	p = &part[struct{}]{name: "data"}
	var v struct {
		Data         string            `json:"data"`
		DataChecksum checksum.Checksum `json:"dataChecksum"`
	}
	if members["data"] == nil || members["dataChecksum"] == nil {
		if p.err = whole; cut {
			return p, data, true
		}
		p.err = errors.New("of the members data and dataChecksum only one is there")
		return p, data, true
	}
	if p.err = decode(members, &v); p.err != nil {
		return p, data, true
	}
	p.written, p.computed = v.DataChecksum, checksum.Of(v.Data)
	p.err = json.Unmarshal([]byte(v.Data), &data)
	return p, data, true
}

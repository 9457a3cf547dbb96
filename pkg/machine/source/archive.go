// SPDX-License-Identifier: Apache-2.0

package source

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Bounds of an archive. One of /sys/devices/system of a machine with 4,096 CPUs has
// about 500,000 members, which tar fills up to 4 KiB each.
const (
	maxMembers  = 1 << 20
	maxUnpacked = 4 << 30
	maxKept     = 256 << 20
	maxPath     = 1 << 10
	maxLevels   = 32
	// Of members that tell nothing, short ones are kept for hard links to them.
	maxShort  = 4 << 10
	maxShorts = 64 << 20
)

// unpacked is what a file has after the compression that its first bytes tell.
// plain is whether there is none.
func unpacked(name string, file *bufio.Reader) (text io.Reader, plain bool, err error) {
	head, err := file.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		text, err = gzip.NewReader(file)
	case bytes.HasPrefix(head, []byte("BZh")):
		text = bzip2.NewReader(file)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One goroutine, which reads only when it is asked to, and a bounded window.
		text, err = zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	case bytes.HasPrefix(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return nil, false, fmt.Errorf("%s is compressed with xz, which is not read; unpack it with unxz first, or use gzip, bzip2 or zstd", name)
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return nil, false, fmt.Errorf("%s is a zip archive, which is not read; want a tar archive, which keeps links", name)
	default:
		return file, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: cannot unpack it: %w", name, err)
	}
	return text, false, nil
}

// isTar is whether a file begins with a header of tar.
func isTar(head []byte) bool {
	if len(head) < 512 {
		return false
	}
	_, err := tar.NewReader(bytes.NewReader(head)).Next()
	// The header may be of a kind that only prepares for the next.
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF)
}

// readArchive reads the part of a tar archive that tells about the machine. It ends
// with an error beyond the bounds above, and for members that would be unpacked
// outside of the current folder.
func readArchive(name string, text io.Reader) (*tree, error) {
	t := newTree()
	limited := &io.LimitedReader{R: text, N: maxUnpacked}
	archive := tar.NewReader(limited)
	kept := 0
	shorts := &shortFiles{files: map[string]*entry{}}
	for members := 0; ; members++ {
		header, err := archive.Next()
		if limited.N <= 0 {
			return nil, fmt.Errorf("%s has more than %d bytes when it is unpacked", name, maxUnpacked)
		}
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: after %d members: %w", name, members, err)
		}
		if members >= maxMembers {
			return nil, fmt.Errorf("%s has more than %d members", name, maxMembers)
		}
		member, err := inside(header.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: member %q: %w", name, short(header.Name), err)
		}
		if !tells.MatchString(member) {
			if err := shorts.keep(member, header, archive); err != nil {
				return nil, fmt.Errorf("%s: member %q: %w", name, short(member), err)
			}
			continue
		}
		if len(member) > maxPath || strings.Count(member, "/") >= maxLevels {
			return nil, fmt.Errorf("%s: member %q: its name has more than %d bytes or %d levels", name, short(member), maxPath, maxLevels)
		}
		e, err := read(t, shorts, header, archive)
		if err != nil {
			return nil, fmt.Errorf("%s: member %q: %w", name, member, err)
		}
		if e == nil {
			continue
		}
		if kept += len(e.text) + len(member); kept > maxKept {
			return nil, fmt.Errorf("%s has more than %d bytes in files about CPUs and memory", name, maxKept)
		}
		if err := t.put(member, e); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// tells is what is kept: the CPUs and their topology and caches, the nodes, and
// /proc/meminfo.
var tells = regexp.MustCompile(`(^|/)(cpu/online|cpu/cpu[0-9]+(/online|/node[0-9]+|/topology(/.*)?|/cache(/.*)?)?|node/node[0-9]+(/(cpu[0-9]+|cpulist|cpumap|meminfo|distance|hugepages(/.*)?))?|proc/meminfo)$`)

// inside is a member's name without what leads nowhere. A leading slash is taken
// away, as tar does.
func inside(name string) (string, error) {
	for _, part := range strings.Split(name, "/") {
		if part == ".." {
			return "", errors.New("its name leads out of the archive")
		}
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/"), nil
}

// shortFiles are members that tell nothing themselves. Where equal files of a copy
// were made links to one, that may be any.
type shortFiles struct {
	files map[string]*entry
	size  int
}

func (s *shortFiles) keep(member string, header *tar.Header, archive io.Reader) error {
	if header.Typeflag != tar.TypeReg || header.Size > maxText || len(member) > maxPath || s.size > maxShorts {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(archive, maxText))
	if text = bytes.TrimRight(text, "\x00"); err != nil || len(text) > maxShort {
		return err
	}
	s.files[member] = &entry{text: bytes.Clone(text)}
	s.size += len(member) + len(text) + 128 // or so, for the entry itself
	return nil
}

// read is a member as an entry, or nil for what is neither file, folder nor link.
func read(t *tree, shorts *shortFiles, header *tar.Header, archive io.Reader) (*entry, error) {
	switch header.Typeflag {
	case tar.TypeDir:
		return newFolder(), nil
	case tar.TypeReg, tar.TypeGNUSparse:
		text, err := io.ReadAll(io.LimitReader(archive, maxText+1))
		if err == nil && len(text) > maxText {
			err = fmt.Errorf("it is larger than %d bytes", maxText)
		}
		return &entry{text: text}, err
	case tar.TypeSymlink:
		if len(header.Linkname) > maxPath {
			return nil, fmt.Errorf("it is a link with more than %d bytes", maxPath)
		}
		return &entry{mode: fs.ModeSymlink, to: header.Linkname}, nil
	case tar.TypeLink:
		target, err := inside(header.Linkname)
		if err != nil {
			return nil, fmt.Errorf("it is a link to %q: %w", short(header.Linkname), err)
		}
		if e := shorts.files[target]; e != nil {
			return e, nil
		}
		e, err := t.get(target)
		if err != nil || e.mode == fs.ModeDir {
			return nil, fmt.Errorf("it is a link to %q, which is no file before it", short(target))
		}
		return e, nil
	}
	return nil, nil
}

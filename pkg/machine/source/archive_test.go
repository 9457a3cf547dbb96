// SPDX-License-Identifier: Apache-2.0

//go:build unix

package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/machine/picture"
)

func example(t testing.TB) machine.Machine {
	m, err := catalog.Get("intel-i7-14700")
	require.NoError(t, err)
	return m
}

// TestArchives reads the same machine from archives of every kind.
func TestArchives(t *testing.T) {
	m := example(t)
	want := managers(t, m)
	text := sysOf(t, m, cpuset.New()).below("top").tar(t)
	for name, pack := range map[string]func([]byte) []byte{
		"a.tar": func(text []byte) []byte { return text },
		"a.tar.gz": func(text []byte) []byte {
			return packed(t, text, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
		},
		"a.tgz": func(text []byte) []byte {
			return packed(t, text, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
		},
		"a.tar.zst": func(text []byte) []byte { return packed(t, text, newZstd(t)) },
		"a":         func(text []byte) []byte { return packed(t, text, newZstd(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(file, pack(text), 0o666))
			m, _, err := Read(file)
			require.NoError(t, err)
			want.Name = "a"
			require.Equal(t, want, m)
		})
	}
}

// TestPadded has files as tar copies them from /sys and /proc: filled up to a page,
// and empty.
func TestPadded(t *testing.T) {
	m := example(t)
	s := sysOf(t, m, cpuset.New())
	for name, text := range s.files {
		s.files[name] = text + strings.Repeat("\x00", 4096-len(text))
	}
	s.files["proc/meminfo"] = ""
	read, _, err := readFile(m.Name+".tar", bytes.NewReader(s.tar(t)))
	require.NoError(t, err)
	require.Equal(t, managers(t, m), read)
}

func packed(t testing.TB, text []byte, writer func(io.Writer) io.WriteCloser) []byte {
	var b bytes.Buffer
	w := writer(&b)
	_, err := w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func newZstd(t testing.TB) func(io.Writer) io.WriteCloser {
	return func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		require.NoError(t, err)
		return z
	}
}

// bz2 is an archive of one empty file, packed by bzip2, which Go only reads.
var bz2 = "BZh91AY&SY\x1d\x16\x0d\x9d\x00\x00%\xdb\x80\xc8\x80@\x00E\x80\x00\x00\xe0\x00\x1e\x00\x00\x88 \x00TB4\xd3&\x86h$I1\xa1\x0cf\xbc\x07A)\xf7\x17$\xb5\x92`\xf1\x02\x86#P\x88\x9b\xbdS\xc6\xceo\xe0\x0d\x99X\xbb\x92)\xc2\x84\x80\xe8\xb0l\xe8"

func TestTree(t *testing.T) {
	s := sysOf(t, example(t), cpuset.New())
	clear(s.links) // fstest's own tree does not know them
	require.NoError(t, fstest.TestFS(s.tree(t), "proc/meminfo", "sys/devices/system/cpu/cpu3/topology/core_id"))
}

// TestLinks has links that lead somewhere, nowhere, out and round in circles.
func TestLinks(t *testing.T) {
	files := newTree()
	for name, to := range map[string]string{
		"a/file": "", "a/to-file": "file", "a/up": "../b", "b/down": "../a/to-file", "b/absolute": "/a/file", "b/self": "self",
		"b/one": "two", "b/two": "one", "b/out": "../../a/file", "b/none": "nowhere", "b/below": "../a/file/x",
	} {
		e := &entry{text: []byte("text")}
		if to != "" {
			e = &entry{mode: fs.ModeSymlink, to: to}
		}
		require.NoError(t, files.put(name, e))
	}
	for name, want := range map[string]string{
		"a/to-file": "", "a/up/down": "", "b/absolute": "", "a/up/absolute": "",
		"b/self": "more than 40 links", "b/one": "more than 40 links", "b/out": "leads out of the archive", "b/none": "does not exist", "b/below": "does not exist",
	} {
		text, err := fs.ReadFile(files, name)
		if want == "" {
			require.NoError(t, err, name)
			require.Equal(t, "text", string(text))
		} else {
			require.ErrorContains(t, err, want, name)
		}
	}
	require.ErrorContains(t, files.put("a/to-file/x", newFolder()), "a/to-file/x is below a/to-file, which is not a folder")
}

const cpus = "top/sys/devices/system/cpu/"

// TestArchiveLinks has copies in which equal files are links to one another.
func TestArchiveLinks(t *testing.T) {
	m, _, err := readFile("links.tar", bytes.NewReader(tarOf(t,
		tar.Header{Typeflag: tar.TypeReg, Name: "top/sys/kernel/zero", Linkname: "0\n\x00\x00"},
		tar.Header{Typeflag: tar.TypeReg, Name: strings.Repeat("round/", 300) + "and/round", Linkname: "0"},
		tar.Header{Typeflag: tar.TypeLink, Name: "/" + cpus + "cpu0/topology/core_id", Linkname: "top/sys/kernel/zero"},
		tar.Header{Typeflag: tar.TypeLink, Name: cpus + "cpu0/topology/physical_package_id", Linkname: cpus + "cpu0/topology/core_id"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "./" + cpus + "cpu1/topology", Linkname: "../cpu0/topology"},
		tar.Header{Typeflag: tar.TypeChar, Name: cpus + "cpu1/online", Devmajor: 1, Devminor: 5},
		tar.Header{Typeflag: tar.TypeFifo, Name: cpus + "online"},
	)))
	require.NoError(t, err)
	require.Equal(t, "0-1", m.Online().String())
}

// TestHostileArchives has what no copy of /sys has.
func TestHostileArchives(t *testing.T) {
	reg := func(name, text string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: text}
	}
	for name, test := range map[string]struct {
		members []tar.Header
		want    string
	}{
		"out":             {[]tar.Header{reg("../etc/passwd", "")}, `member "../etc/passwd": its name leads out of the archive`},
		"out and in":      {[]tar.Header{reg("a/../../a", "")}, "leads out of the archive"},
		"absolute":        {[]tar.Header{reg("/etc/passwd", "x")}, "no copy of /sys"},
		"deep":            {[]tar.Header{reg(strings.Repeat("a/", 40)+cpus+"online", "")}, "more than 1024 bytes or 32 levels"},
		"long":            {[]tar.Header{reg(strings.Repeat("a", 2000)+"/"+cpus+"online", "")}, "more than 1024 bytes or 32 levels"},
		"large":           {[]tar.Header{reg(cpus+"online", strings.Repeat("0,", maxText))}, "it is larger than 65536 bytes"},
		"hard link out":   {[]tar.Header{{Typeflag: tar.TypeLink, Name: cpus + "online", Linkname: "../../etc/passwd"}}, `it is a link to "../../etc/passwd": its name leads out`},
		"hard link ahead": {[]tar.Header{{Typeflag: tar.TypeLink, Name: cpus + "online", Linkname: "later"}}, `it is a link to "later", which is no file before it`},
		"hard link to a folder": {[]tar.Header{{Typeflag: tar.TypeDir, Name: cpus + "cpu0"}, {Typeflag: tar.TypeLink, Name: cpus + "cpu1", Linkname: cpus + "cpu0"}},
			"which is no file before it"},
		"long link":    {[]tar.Header{{Typeflag: tar.TypeSymlink, Name: cpus + "cpu0", Linkname: strings.Repeat("a", 2000)}}, "more than 1024 bytes"},
		"through link": {[]tar.Header{{Typeflag: tar.TypeSymlink, Name: cpus + "cpu0/topology", Linkname: "/etc"}, reg(cpus+"cpu0/topology/core_id", "0")}, "which is not a folder"},
		"link out": {[]tar.Header{reg(cpus+"cpu0/topology/physical_package_id", "0"), {Typeflag: tar.TypeSymlink, Name: cpus + "cpu0/topology/core_id", Linkname: "../../../../../../../../../etc/hostname"}},
			"leads out of the archive"},
		"circle": {[]tar.Header{{Typeflag: tar.TypeSymlink, Name: cpus + "cpu0/topology", Linkname: "topology"}}, "more than 40 links"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readFile("hostile.tar", bytes.NewReader(tarOf(t, test.members...)))
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "hostile.tar")
		})
	}
}

// zeros is an archive of so many bytes that it need not be written down.
func zeros(t *testing.T, size int64) io.Reader {
	var head bytes.Buffer
	require.NoError(t, tar.NewWriter(&head).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Size: size}))
	return io.MultiReader(&head, io.LimitReader(zero{}, size))
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestArchiveBounds(t *testing.T) {
	_, _, err := readFile("zeros.tar", zeros(t, 5<<30))
	require.ErrorContains(t, err, "zeros.tar has more than 4294967296 bytes when it is unpacked")

	// One megabyte of members, again and again.
	var some bytes.Buffer
	w := tar.NewWriter(&some)
	for i := range 2048 {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("%d/", i)}))
	}
	require.NoError(t, w.Flush())
	var all []io.Reader
	for range maxMembers/2048 + 1 {
		all = append(all, bytes.NewReader(some.Bytes()))
	}
	_, _, err = readFile("many.tar", io.MultiReader(all...))
	require.ErrorContains(t, err, "many.tar has more than 1048576 members")
}

func TestNoArchives(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"xz":        {"\xfd7zXZ\x00", "is compressed with xz, which is not read"},
		"zip":       {"PK\x03\x04", "is a zip archive, which is not read"},
		"bzip2":     {bz2, "no copy of /sys"},
		"gzip":      {"\x1f\x8b\x08", "cannot unpack it"},
		"zstd":      {"\x28\xb5\x2f\xfd", "unexpected EOF"},
		"packed":    {string(packed(t, []byte("name: a"), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })), "is compressed, but no tar archive"},
		"binary":    {"\x7fELF\x00", "is no text and no tar archive"},
		"cut short": {string(packed(t, sysOf(t, example(t), cpuset.New()).tar(t), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })[:2000]), "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readFile("file", strings.NewReader(test.text))
			require.ErrorContains(t, err, test.want)
		})
	}
}

// TestFolders has links that lead out of a folder, or round in circles.
func TestFolders(t *testing.T) {
	m := example(t)
	want := managers(t, m)
	top := t.TempDir()
	sysOf(t, m, cpuset.New()).write(t, filepath.Join(top, "host/inner"))
	require.NoError(t, os.Symlink("..", filepath.Join(top, "host/inner/round")))
	require.NoError(t, os.Symlink("/", filepath.Join(top, "host/inner/root")))
	for folder, name := range map[string]string{"host": "host", "host/inner": "inner", "host/inner/sys": "inner", "host/inner/sys/devices/system": "system"} {
		m, _, err := Read(filepath.Join(top, folder))
		require.NoError(t, err)
		want.Name = name
		require.Equal(t, want, m)
	}
	secret := filepath.Join(top, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("0"), 0o600))
	inner := filepath.Join(top, "host/inner/sys/devices/system/cpu/cpu0/topology/core_id")
	require.NoError(t, os.Remove(inner))
	require.NoError(t, os.Symlink(secret, inner))
	_, _, err := Read(filepath.Join(top, "host"))
	require.ErrorContains(t, err, "cpu0/topology/core_id: path escapes from parent")
}

// TestLarge reads and draws a machine with as many CPUs as Linux is often built
// for, from a compressed archive.
func TestLarge(t *testing.T) {
	m, _, err := readLine("32 sockets, 2 nodes each, 32 cores, 2 threads, 16Ti")
	require.NoError(t, err)
	m.Name = "large"
	archive := packed(t, sysOf(t, m, cpuset.New()).tar(t), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	read, _, err := readFile("large.tar.gz", bytes.NewReader(archive))
	require.NoError(t, err)
	require.Equal(t, m, read)
	var out bytes.Buffer
	require.NoError(t, picture.Draw(&out, m, picture.Options{}))
	require.Less(t, strings.Count(out.String(), "\n"), 300)
	out.Reset()
	require.NoError(t, picture.Draw(&out, m, picture.Options{Mark: func(cpu int) string { return "AB"[cpu%2 : cpu%2+1] }}))
	require.Less(t, strings.Count(out.String(), "\n"), 400)
	for _, line := range strings.Split(out.String(), "\n") {
		require.LessOrEqual(t, len(line), picture.Width+20, line)
	}
}

// TestFolderPipe has what would keep a reader waiting.
func TestFolderPipe(t *testing.T) {
	top := t.TempDir()
	sysOf(t, example(t), cpuset.New()).write(t, top)
	pipe := filepath.Join(top, "sys/devices/system/cpu/cpu3/topology/core_id")
	require.NoError(t, os.Remove(pipe))
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, _, err := Read(top)
	require.ErrorContains(t, err, "cpu3/topology/core_id: it is no regular file")
}

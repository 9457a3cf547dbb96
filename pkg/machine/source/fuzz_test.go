// SPDX-License-Identifier: Apache-2.0

package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/picture"
)

// sound checks that what was read can be, can be written down and read again, and
// drawn.
func sound(t *testing.T, m machine.Machine, err error) {
	if err != nil {
		return
	}
	require.NoError(t, m.Validate())
	for _, text := range [][]byte{m.YAML(), m.JSON()} {
		again, err := machine.Parse("written", text)
		require.NoError(t, err)
		require.Equal(t, m, again)
	}
	require.NoError(t, picture.Draw(io.Discard, m, picture.Options{}))
	require.NoError(t, picture.Draw(io.Discard, m, picture.Options{Mark: func(cpu int) string { return "abc"[:cpu%4] }}))
}

// FuzzArchive reads any archive.
func FuzzArchive(f *testing.F) {
	small, err := machine.Parse("small", []byte("{name: small, nodes: [{id: 0, memory: 1Gi, distances: 10}], cpus: [{cpus: 0}]}"))
	require.NoError(f, err)
	archive := sysOf(f, small, cpuset.New()).tar(f)
	f.Add(archive)
	f.Add(packed(f, archive, newZstd(f)))
	f.Add(packed(f, archive, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }))
	f.Add([]byte(bz2))
	f.Add(tarOf(f, tar.Header{Typeflag: tar.TypeLink, Name: cpus + "cpu0/topology", Linkname: cpus}, tar.Header{Typeflag: tar.TypeSymlink, Name: cpus + "cpu0", Linkname: ".."}))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, _, err := readFile("fuzz.tar", bytes.NewReader(text))
		sound(t, m, err)
	})
}

// FuzzDocument reads any report and description.
func FuzzDocument(f *testing.F) {
	four, err := machine.Parse("four", []byte(fourText))
	require.NoError(f, err)
	f.Add(four.YAML())
	f.Add(four.JSON())
	f.Add([]byte(`{"num_cores": 2, "topology": [{"node_id": 0, "memory": 1024, "distances": [10], "hugepages": [{"page_size": 1, "num_pages": 1}],
"cores": [{"core_id": -1, "thread_ids": [0, 1], "socket_id": -1, "uncore_caches": [{"id": -1, "size": 1, "level": 3}]}], "caches": [{"id": 0, "level": 3}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, _, err := readDocument("fuzz.json", bytes.NewReader(text))
		sound(t, m, err)
	})
}

// FuzzSys reads any copy of /sys. A line of the text is a path and a content.
func FuzzSys(f *testing.F) {
	four, err := machine.Parse("four", []byte(fourText))
	require.NoError(f, err)
	var lines []string
	for name, text := range sysOf(f, four, cpuset.New(3)).files {
		lines = append(lines, name+" "+strings.TrimSpace(text))
	}
	f.Add(strings.Join(lines, "\n"))
	f.Add("cpu/cpu0/topology/core_id -1\ncpu/cpu0/topology/physical_package_id -1\ncpu/cpu1/topology/book_id 1\nnode/node9/cpulist 0-1")
	f.Fuzz(func(t *testing.T, text string) {
		files := fstest.MapFS{}
		for _, line := range strings.Split(text, "\n") {
			name, text, _ := strings.Cut(line, " ")
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		m, _, err := readSys("fuzz", "fuzz", "/", files)
		sound(t, m, err)
	})
}

// FuzzLine reads any line.
func FuzzLine(f *testing.F) {
	f.Add("2 sockets, 2 nodes each, 16 cores, 2 threads, 256Gi")
	f.Add("3 NUMA nodes per socket, 10 GiB of memory")
	f.Fuzz(func(t *testing.T, text string) {
		m, _, err := readLine(text)
		sound(t, m, err)
	})
}

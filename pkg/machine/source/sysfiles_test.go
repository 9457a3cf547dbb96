// SPDX-License-Identifier: Apache-2.0

package source

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

// sysFiles is what Linux shows of a machine in /sys and /proc: files by their
// paths, and links.
type sysFiles struct{ files, links map[string]string }

// sysOf shows a machine of which some CPUs are offline: those have a folder still,
// without topology and caches.
func sysOf(t testing.TB, all machine.Machine, offline cpuset.CPUSet) sysFiles {
	online := all
	if !offline.IsEmpty() {
		var err error
		online, err = all.Without(offline)
		require.NoError(t, err)
	}
	s := sysFiles{map[string]string{}, map[string]string{}}
	const system = "sys/devices/system"
	s.files["proc/meminfo"] = fmt.Sprintf("MemTotal:       %d kB\nMemFree:        1024 kB\n", all.Memory()/1024)
	s.files[system+"/cpu/online"] = online.Online().String() + "\n"
	s.files[system+"/cpu/cpufreq/boost"] = "1\n"
	for _, c := range all.CPUs {
		folder := fmt.Sprintf("%s/cpu/cpu%d", system, c.ID)
		s.files[folder+"/uevent"] = ""
		s.links[fmt.Sprintf("%s/node/node%d/cpu%d", system, c.Node, c.ID)] = fmt.Sprintf("../../cpu/cpu%d", c.ID)
		if offline.Contains(c.ID) {
			continue
		}
		s.files[folder+"/topology/core_id"] = fmt.Sprintf("%d\n", c.Core)
		s.files[folder+"/topology/physical_package_id"] = fmt.Sprintf("%d\n", c.Socket)
	}
	cores, sockets, caches := map[machine.CoreID][]int{}, map[int][]int{}, map[int][]int{}
	for _, c := range online.CPUs {
		cores[c.CoreID()] = append(cores[c.CoreID()], c.ID)
		sockets[c.Socket] = append(sockets[c.Socket], c.ID)
		caches[c.Cache] = append(caches[c.Cache], c.ID)
	}
	for _, c := range online.CPUs {
		folder := fmt.Sprintf("%s/cpu/cpu%d/topology", system, c.ID)
		s.files[folder+"/thread_siblings_list"] = cpuset.New(cores[c.CoreID()]...).String() + "\n"
		s.files[folder+"/core_siblings"] = cpuMap(sockets[c.Socket]) + "\n"
	}
	sizes := map[int]uint64{}
	for _, c := range online.Caches {
		sizes[c.ID] = c.Size
	}
	for _, c := range online.CPUs {
		if len(online.Caches) == 0 {
			break // as on a guest of Arm
		}
		folder := fmt.Sprintf("%s/cpu/cpu%d/cache", system, c.ID)
		core := cores[c.CoreID()]
		s.cache(folder+"/index0", core[0], 32<<10, 1, "Data", core)
		s.cache(folder+"/index1", core[0], 32<<10, 1, "Instruction", core)
		s.cache(folder+"/index2", core[0], 1<<20, 2, "Unified", core)
		if c.Cache == machine.NoCache {
			continue // as the efficient cores of some
		}
		s.cache(folder+"/index3", c.Cache, sizes[c.Cache], 3, "Unified", caches[c.Cache])
	}
	for _, n := range all.Nodes {
		folder := fmt.Sprintf("%s/node/node%d", system, n.ID)
		var cpus []int
		for _, c := range online.CPUs {
			if c.Node == n.ID {
				cpus = append(cpus, c.ID)
			}
		}
		s.files[folder+"/cpulist"] = cpuset.New(cpus...).String() + "\n"
		s.files[folder+"/meminfo"] = fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        1 kB\n", n.ID, n.Memory/1024, n.ID)
		if n.Distances != nil {
			var row []string
			for _, d := range n.Distances {
				row = append(row, strconv.FormatUint(d, 10))
			}
			s.files[folder+"/distance"] = strings.Join(row, " ") + "\n"
		}
		for _, h := range n.HugePages {
			s.files[fmt.Sprintf("%s/hugepages/hugepages-%dkB/nr_hugepages", folder, h.PageSize/1024)] = fmt.Sprintf("%d\n", h.Pages)
		}
	}
	return s
}

func (s sysFiles) cache(folder string, id int, size uint64, level int, kind string, sharing []int) {
	s.files[folder+"/id"] = fmt.Sprintf("%d\n", id)
	s.files[folder+"/size"] = fmt.Sprintf("%dK\n", size/1024)
	s.files[folder+"/level"] = fmt.Sprintf("%d\n", level)
	s.files[folder+"/type"] = kind + "\n"
	s.files[folder+"/shared_cpu_map"] = cpuMap(sharing) + "\n"
	s.files[folder+"/shared_cpu_list"] = cpuset.New(sharing...).String() + "\n"
}

// cpuMap is a set as the kernel prints masks: words of 32 bits, the highest first.
func cpuMap(cpus []int) string {
	words := make([]uint32, slices.Max(cpus)/32+1)
	for _, c := range cpus {
		words[len(words)-1-c/32] |= 1 << (c % 32)
	}
	var text []string
	for _, w := range words {
		text = append(text, fmt.Sprintf("%08x", w))
	}
	return strings.Join(text, ",")
}

// below moves everything into a folder.
func (s sysFiles) below(folder string) sysFiles {
	moved := sysFiles{map[string]string{}, map[string]string{}}
	for name, text := range s.files {
		moved.files[path.Join(folder, name)] = text
	}
	for name, to := range s.links {
		moved.links[path.Join(folder, name)] = to
	}
	return moved
}

func (s sysFiles) remove(part string) {
	maps.DeleteFunc(s.files, func(name, _ string) bool { return strings.Contains(name, part) })
	maps.DeleteFunc(s.links, func(name, _ string) bool { return strings.Contains(name, part) })
}

func (s sysFiles) mapFS() fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range s.files {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	for name, to := range s.links {
		files[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
	}
	return files
}

// tree is for large machines, on which a map of all paths is slow.
func (s sysFiles) tree(t testing.TB) *tree {
	files := newTree()
	for name, text := range s.files {
		require.NoError(t, files.put(name, &entry{text: []byte(text)}))
	}
	for name, to := range s.links {
		require.NoError(t, files.put(name, &entry{mode: fs.ModeSymlink, to: to}))
	}
	return files
}

func (s sysFiles) write(t testing.TB, folder string) {
	put := func(name string, write func(string) error) {
		name = filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, write(name))
	}
	for name, text := range s.files {
		put(name, func(name string) error { return os.WriteFile(name, []byte(text), 0o666) })
	}
	for name, to := range s.links {
		put(name, func(name string) error { return os.Symlink(to, name) })
	}
}

func (s sysFiles) tar(t testing.TB) []byte {
	var members []tar.Header
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		members = append(members, tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: s.files[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(s.links)) {
		members = append(members, tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: s.links[name]})
	}
	return tarOf(t, members...)
}

// tarOf is an archive. A regular file's content stands in the place of a link's
// target.
func tarOf(t testing.TB, members ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		content := ""
		if m.Typeflag == tar.TypeReg {
			content, m.Linkname = m.Linkname, ""
			m.Size = int64(len(content))
		}
		m.Mode = 0o644
		require.NoError(t, w.WriteHeader(&m))
		_, err := w.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

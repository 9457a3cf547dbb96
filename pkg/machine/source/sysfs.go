// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/google/cadvisor/lib/utils/sysinfo"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

const (
	// maxText bounds a file of /sys or /proc: the largest page of memory that Linux
	// has.
	maxText = 64 << 10
	// maxCPUs bounds the CPUs. Linux has at most 8192.
	maxCPUs = 1 << 14
)

// readSys reads the machine from a tree with a copy of /sys, as the kubelet would:
// the files are read here, and cAdvisor, which does it in the kubelet, makes its
// report from them. name is the machine's, file that of the folder or archive, and
// separator what stands in errors between that and a path in the tree.
func readSys(name, file, separator string, files fs.FS) (machine.Machine, []string, error) {
	depth := ofCopy
	if file == "/" {
		depth = 0 // a copy somewhere on a machine is none of the machine
	}
	system, err := find(files, depth)
	if err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	s := &sys{files: files, system: system, name: name, file: file, separator: separator}
	if err := s.look(); err != nil {
		return machine.Machine{}, nil, err
	}
	info := &cadvisorapi.MachineInfo{}
	info.Topology, info.NumCores, err = sysinfo.GetNodesInfo(s)
	if s.wrong != nil {
		return machine.Machine{}, nil, s.wrong
	}
	if err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, core := range allCores(info.Topology) {
		core.Id = s.coreID(core.Id)
	}
	if err := s.seen(info.Topology); err != nil {
		return machine.Machine{}, nil, err
	}
	s.siblings(info.Topology)
	if err := s.memory(info); err != nil {
		return machine.Machine{}, nil, err
	}
	s.socketsAsNodes(info.Topology)
	m, err := fromReport(name, info, &s.notes)
	if err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	s.lacksHugePages(name, m)
	s.lacks(name, m)
	return m, s.texts, nil
}

// label is a file's name for errors.
func (s *sys) label(file string) string {
	return strings.TrimSuffix(s.file, s.separator) + s.separator + file
}

// text is what a file has. The error is one that os.IsNotExist understands.
func (s *sys) text(file string) (string, error) {
	// What is no file might keep the reader waiting.
	about, err := fs.Stat(s.files, file)
	if err == nil && !about.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return "", s.pathError(file, err)
	}
	f, err := s.files.Open(file)
	if err != nil {
		return "", s.pathError(file, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("it is larger than %d bytes", maxText)
	}
	if err != nil {
		return "", s.pathError(file, err)
	}
	// The kernel gives every file of /sys the size of a page, and tar fills up what
	// it cannot read of that.
	return strings.TrimSpace(strings.TrimRight(string(text), "\x00")), nil
}

func (s *sys) pathError(file string, err error) error {
	if is, ok := err.(*fs.PathError); ok {
		err = is.Err
	}
	return &fs.PathError{Op: "open", Path: s.label(file), Err: err}
}

// cpuList is a file with a list like "0-3,8".
func (s *sys) cpuList(file string) (cpuset.CPUSet, error) {
	text, err := s.text(file)
	if err != nil || text == "" {
		return cpuset.CPUSet{}, err
	}
	// cpuset.Parse writes out every range, however long.
	for _, number := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '-' }) {
		if id, err := strconv.Atoi(number); err != nil || id < 0 || id > machine.MaxCPU {
			return cpuset.CPUSet{}, fmt.Errorf("%s: %q has %q, want CPUs from 0 to %d", s.label(file), short(text), number, machine.MaxCPU)
		}
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.CPUSet{}, fmt.Errorf("%s: %q is not a list of CPUs: %w", s.label(file), short(text), err)
	}
	return set, nil
}

// look finds out which CPUs there are, and which are online.
func (s *sys) look() error {
	ids, err := list(s.files, join(s.system, "cpu"), "cpu")
	if err != nil {
		return s.pathError(join(s.system, "cpu"), err)
	}
	if len(ids) > maxCPUs {
		return fmt.Errorf("%s has %d CPUs, at most %d are read", s.label(join(s.system, "cpu")), len(ids), maxCPUs)
	}
	if highest := slices.Max(ids); highest > machine.MaxCPU {
		return fmt.Errorf("%s has CPU %d, the highest supported is %d", s.label(join(s.system, "cpu")), highest, machine.MaxCPU)
	}
	s.present = cpuset.New(ids...)
	for _, id := range ids {
		// CPUs that are offline have no topology.
		if _, err := s.text(join(s.cpuFolder(id), "topology/core_id")); err == nil {
			_, err = s.text(join(s.cpuFolder(id), "topology/book_id"))
			s.books = err == nil
			break
		}
	}
	file := join(s.system, "cpu/online")
	if _, err := fs.Stat(s.files, file); err == nil {
		if s.online, err = s.cpuList(file); err != nil {
			return err
		}
		if s.online.IsEmpty() {
			return fmt.Errorf("%s is empty, want the CPUs that are online", s.label(file))
		}
		if missing := s.online.Difference(s.present); !missing.IsEmpty() {
			return fmt.Errorf("%s has the CPUs %s, but of these %s have no folder %s: the copy is not whole",
				s.label(file), s.online, missing, s.label(s.cpuFolder(missing.List()[0])))
		}
		return nil
	}
	// Without that file cAdvisor takes all CPUs for online. On a machine it is
	// missing only where no CPU can go offline; a copy may have forgotten it.
	var online []int
	for _, id := range ids {
		if text, err := s.text(join(s.cpuFolder(id), "online")); err != nil || text != "0" {
			online = append(online, id)
		}
	}
	s.online = cpuset.New(online...)
	return nil
}

// seen compares the CPUs that cAdvisor sees with those that are online.
func (s *sys) seen(nodes []cadvisorapi.Node) error {
	unseen := s.online.Difference(cpuset.New(sysinfo.GetOnlineCPUs(nodes)...))
	switch {
	case unseen.Equals(s.online):
		return fmt.Errorf("%s: the kubelet would see none of the CPUs %s: they are on no NUMA node, or have no topology/core_id or topology/physical_package_id", s.file, unseen)
	case !unseen.IsEmpty():
		s.add("unseen", "%s has the CPUs %s, which the kubelet does not see: they are on no NUMA node, or have no topology/core_id or topology/physical_package_id", s.name, unseen)
	}
	return nil
}

var memTotal = regexp.MustCompile(`MemTotal:\s*([0-9]{1,15}) kB`)

// memory takes the machine's memory from /proc/meminfo, if there is a copy of that.
func (s *sys) memory(info *cadvisorapi.MachineInfo) error {
	for _, node := range info.Topology {
		info.MemoryCapacity += node.Memory
	}
	ofNodes := info.MemoryCapacity
	text, file, ok := "", "", false
	if file, ok = meminfo(s.system); ok {
		text, _ = s.text(file) // an error is that there is no copy
	}
	if text == "" { // as in copies of tar's, which takes files of /proc for empty
		if ofNodes > 0 && !s.withoutNodes {
			s.add("total", "%s tells no memory of the machine as a whole (/proc/meminfo); that of its NUMA nodes together is taken for it", s.name)
		}
		return nil
	}
	match := memTotal.FindStringSubmatch(text)
	if match == nil {
		return s.fail(file, text, `a line like "MemTotal: 1024 kB"`)
	}
	total, err := strconv.ParseUint(match[1], 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", s.label(file), err)
	}
	info.MemoryCapacity = total * 1024
	if ofNodes == 0 && !s.withoutNodes && len(info.Topology) == 1 {
		info.Topology[0].Memory = info.MemoryCapacity
		s.add(aboutMemory, "%s tells no memory of NUMA node %d; it is taken from %s", s.name, info.Topology[0].Id, s.label(file))
	}
	return nil
}

// socketsAsNodes says that cAdvisor makes nodes of sockets where the kernel has no
// NUMA nodes. Those have the sockets' numbers, and others only where the kernel
// does not know the socket.
func (s *sys) socketsAsNodes(nodes []cadvisorapi.Node) {
	if !s.withoutNodes {
		return
	}
	s.add("nodes", "%s has no NUMA nodes (%s); the kubelet takes each socket for one, without memory", s.name, s.label(join(s.system, "node")))
	numbers := free{used: map[int]bool{}}
	for _, node := range nodes {
		numbers.used[node.Id] = true
	}
	slices.SortFunc(nodes, func(a, b cadvisorapi.Node) int { return a.Id - b.Id })
	for i, node := range nodes {
		if node.Id < 0 {
			nodes[i].Id = numbers.take()
			s.add("node numbers", "%s: as a NUMA node socket %d is called %d here; with its own number only the policies none and None of the kubelet's managers work",
				s.name, node.Id, nodes[i].Id)
		}
	}
}

// short is text for an error.
func short(text string) string {
	if len(text) > 80 {
		return text[:80] + "..."
	}
	return text
}

// join is short for a path in the tree, which has no "." at its front.
func join(parts ...string) string { return path.Join(parts...) }

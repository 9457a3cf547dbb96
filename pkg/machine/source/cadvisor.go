// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cadvisor/lib/utils/sysfs"
	"k8s.io/utils/cpuset"
)

// sys answers cAdvisor's questions from a tree with a copy of /sys. The paths that
// it gives to cAdvisor are those of a machine.
type sys struct {
	sysfs.SysFs // nil: cAdvisor asks nothing else for this
	notes

	files  fs.FS
	system string // the folder that is devices/system
	// name is the machine's for notes, file and separator are for errors.
	name, file, separator string

	present, online cpuset.CPUSet
	// books is whether this is a machine of IBM Z, where caches have no IDs, and
	// where cAdvisor does without. cores are its cores, by the numbers that cAdvisor
	// was told.
	books bool
	cores []bookCore
	// withoutNodes is whether the kernel has no NUMA nodes.
	withoutNodes bool
	// wrong is the first file with what cAdvisor cannot read.
	wrong error
}

// fail is the error of a file with what cAdvisor cannot read. cAdvisor's own words
// would not name it.
func (s *sys) fail(file, text, want string) error {
	err := fmt.Errorf("%s has %q, want %s", s.label(file), short(text), want)
	if s.wrong == nil {
		s.wrong = err
	}
	return err
}

const systemFolder = "/sys/devices/system"

// numberOf is the number that ends a path.
func numberOf(path string) string {
	return path[strings.LastIndexFunc(path, func(r rune) bool { return r < '0' || r > '9' })+1:]
}

func (s *sys) cpuFolder(cpu int) string {
	return join(s.system, "cpu", "cpu"+strconv.Itoa(cpu))
}

// of is a file of the CPU or node that a path ends with. Whatever the links in a
// copy of a node's folder are, a CPU's files are in the folder of the CPUs.
func (s *sys) of(path, file string) string {
	if strings.Contains(path, "/cpu") {
		id, _ := strconv.Atoi(numberOf(path)) // one of GetCPUsPaths
		return join(s.cpuFolder(id), file)
	}
	return join(s.system, "node", "node"+numberOf(path), file)
}

// GetNodesPaths lists the NUMA nodes.
func (s *sys) GetNodesPaths() ([]string, error) {
	ids, err := list(s.files, join(s.system, "node"), "node")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, s.pathError(join(s.system, "node"), err)
	}
	if s.withoutNodes = len(ids) == 0; s.withoutNodes {
		for _, cpu := range s.online.List() {
			// A kernel with NUMA nodes has a link from each CPU to its node.
			if links, err := list(s.files, s.cpuFolder(cpu), "node"); err == nil && len(links) > 0 {
				s.wrong = fmt.Errorf("%s has no NUMA nodes, but CPU %d is on node %d: the copy is not whole",
					s.label(join(s.system, "node")), cpu, links[0])
				return nil, s.wrong
			}
		}
	}
	return paths(systemFolder+"/node/node", ids), nil
}

// GetCPUsPaths lists a node's CPUs, or all.
func (s *sys) GetCPUsPaths(folder string) ([]string, error) {
	if !strings.Contains(folder, "/node/") {
		ids, err := list(s.files, join(s.system, "cpu"), "cpu")
		return paths(folder+"/cpu", ids), err
	}
	node := s.of(folder, "")
	ids, err := list(s.files, node, "cpu")
	if err != nil {
		return nil, s.pathError(node, err)
	}
	if len(ids) == 0 {
		// The entries are links, which not every way of copying keeps.
		set, err := s.cpuList(join(node, "cpulist"))
		if errors.Is(err, fs.ErrNotExist) {
			set, err = s.cpuMap(join(node, "cpumap"))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		ids = set.Intersection(s.present).List()
	}
	return paths(folder+"/cpu", ids), nil
}

func paths(prefix string, ids []int) []string {
	var all []string
	for _, id := range ids {
		all = append(all, prefix+strconv.Itoa(id))
	}
	return all
}

// IsCPUOnline tells what look has found.
func (s *sys) IsCPUOnline(path string) bool {
	id, err := strconv.Atoi(numberOf(path))
	return err == nil && s.online.Contains(id)
}

// number is a file with one number.
func (s *sys) number(file string) (string, error) {
	text, err := s.text(file)
	if err != nil {
		return "", err
	}
	if _, err := strconv.ParseInt(text, 10, 32); err != nil {
		return "", s.fail(file, text, "a number of 32 bits")
	}
	return text, nil
}

// bookCore is a core of IBM Z, where a socket has its number within a book, and a
// book within a drawer.
type bookCore struct{ drawer, book, socket, core string }

// GetCoreID is the number of a CPU's core. On IBM Z cAdvisor tells cores of one
// number apart by their books and drawers, but only where it runs on such a machine
// itself, so it is told numbers that differ.
func (s *sys) GetCoreID(path string) (string, error) {
	id, err := s.number(s.of(path, "topology/core_id"))
	if err != nil || !s.books {
		return id, err
	}
	c := bookCore{core: id}
	for _, part := range []struct {
		file string
		id   *string
	}{{"drawer_id", &c.drawer}, {"book_id", &c.book}, {"physical_package_id", &c.socket}} {
		if *part.id, err = s.text(s.of(path, "topology/"+part.file)); err != nil {
			return "", err
		}
	}
	i := slices.Index(s.cores, c)
	if i < 0 {
		i = len(s.cores)
		s.cores = append(s.cores, c)
	}
	return strconv.Itoa(i), nil
}

// coreID is the machine's own number of a core that cAdvisor was told.
func (s *sys) coreID(told int) int {
	if !s.books {
		return told
	}
	id, _ := strconv.Atoi(s.cores[told].core) // number has read it
	return id
}

// GetCPUPhysicalPackageID is the number of a CPU's socket.
func (s *sys) GetCPUPhysicalPackageID(path string) (string, error) {
	return s.number(s.of(path, "topology/physical_package_id"))
}

// GetBookID is asked for only where this runs on IBM Z. GetCoreID has looked at it.
func (s *sys) GetBookID(string) (string, error) { return "", nil }

// GetDrawerID is like GetBookID.
func (s *sys) GetDrawerID(string) (string, error) { return "", nil }

// GetMemInfo is a node's memory. cAdvisor goes on without.
func (s *sys) GetMemInfo(path string) (string, error) {
	file := s.of(path, "meminfo")
	text, err := s.text(file)
	if err != nil {
		s.add(aboutMemory, "%s tells no memory of NUMA node %s (%s)", s.name, numberOf(path), s.label(file))
		return "", err
	}
	if !memTotal.MatchString(text) {
		return "", s.fail(file, text, `a line like "Node 0 MemTotal: 1024 kB"`)
	}
	return text, nil
}

// GetDistances is a node's distances. cAdvisor goes on without.
func (s *sys) GetDistances(path string) (string, error) {
	file := s.of(path, "distance")
	text, err := s.text(file)
	if err != nil {
		return "", err
	}
	fields := strings.Fields(text)
	for _, field := range fields {
		if _, err := strconv.ParseUint(field, 10, 32); err != nil {
			return "", s.fail(file, text, "numbers")
		}
	}
	return strings.Join(fields, " "), nil
}

var poolName = regexp.MustCompile(`^hugepages-([0-9]{1,12})kB$`)

// GetHugePagesInfo lists a node's pools of hugepages. cAdvisor goes on without.
func (s *sys) GetHugePagesInfo(path string) ([]os.FileInfo, error) {
	folder := s.of(strings.TrimSuffix(path, "/hugepages/"), "hugepages")
	infos, err := s.folders(folder)
	if err != nil {
		return nil, err
	}
	var pools []os.FileInfo
	for _, info := range infos {
		if !poolName.MatchString(info.Name()) {
			continue
		}
		file := join(folder, info.Name(), sysfs.HugePagesNrFile)
		if _, err := fs.Stat(s.files, file); err != nil {
			s.add(aboutHugePages, "%s does not tell how many hugepages there are of some size (%s)", s.name, s.label(file))
			continue
		}
		pools = append(pools, info)
	}
	return pools, nil
}

// GetHugePagesNr is how many pages a pool has.
func (s *sys) GetHugePagesNr(path, pool string) (string, error) {
	file := join(s.of(strings.TrimSuffix(path, "/hugepages/"), "hugepages"), pool, sysfs.HugePagesNrFile)
	text, err := s.text(file)
	if err != nil {
		return "", err
	}
	if _, err := strconv.ParseUint(text, 10, 63); err != nil {
		return "", s.fail(file, text, "a number of pages")
	}
	return text, nil
}

func (s *sys) folders(folder string) ([]os.FileInfo, error) {
	entries, err := fs.ReadDir(s.files, folder)
	if err != nil {
		return nil, s.pathError(folder, err)
	}
	var infos []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, s.pathError(join(folder, e.Name()), err)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// GetCaches lists a CPU's caches. After an error cAdvisor sees none of a node's.
func (s *sys) GetCaches(cpu int) ([]os.FileInfo, error) {
	return s.folders(join(s.cpuFolder(cpu), "cache"))
}

// GetCacheInfo is one cache. After an error cAdvisor sees none of the node's other
// cores.
func (s *sys) GetCacheInfo(cpu int, cache string) (sysfs.CacheInfo, error) {
	folder := join(s.cpuFolder(cpu), "cache", cache)
	info, err := s.cache(folder)
	if err != nil {
		s.add(aboutCaches, "the kubelet does not see some or all last-level caches of %s (%v); the CPU manager takes the socket for them", s.name, err)
	}
	return info, err
}

func (s *sys) cache(folder string) (info sysfs.CacheInfo, err error) {
	value := func(name, format string, to any) error {
		text, err := s.text(join(folder, name))
		if err != nil {
			return err
		}
		if _, err := fmt.Sscanf(text, format, to); err != nil {
			return fmt.Errorf("%s has %q, want a value like %q", s.label(join(folder, name)), short(text), strings.ReplaceAll(format, "%d", "32"))
		}
		return nil
	}
	if !s.books {
		if err := value("id", "%d", &info.Id); err != nil {
			return info, err
		}
	}
	if err := value("size", "%dK", &info.Size); err != nil {
		return info, err
	}
	info.Size *= 1024
	if err := value("level", "%d", &info.Level); err != nil {
		return info, err
	}
	if info.Type, err = s.text(join(folder, "type")); err != nil {
		return info, err
	}
	info.Cpus, err = s.sharing(folder)
	return info, err
}

// sharing is how many CPUs use a cache: the bits of the map or, where a copy has
// none, the list.
func (s *sys) sharing(folder string) (int, error) {
	set, err := s.cpuMap(join(folder, "shared_cpu_map"))
	if errors.Is(err, fs.ErrNotExist) {
		set, err = s.cpuList(join(folder, "shared_cpu_list"))
	}
	return set.Size(), err
}

// cpuMap is a file with a mask of CPUs: hexadecimal words of 32 bits, the highest
// first.
func (s *sys) cpuMap(file string) (cpuset.CPUSet, error) {
	text, err := s.text(file)
	if err != nil {
		return cpuset.CPUSet{}, err
	}
	words := strings.Split(text, ",")
	var ids []int
	for i, word := range words {
		mask, err := strconv.ParseUint(strings.TrimSpace(word), 16, 32)
		if err != nil {
			return cpuset.CPUSet{}, fmt.Errorf("%s has %q, want hexadecimal words of 32 bits with commas between", s.label(file), short(text))
		}
		for ; mask != 0; mask &= mask - 1 {
			ids = append(ids, (len(words)-1-i)*32+bits.TrailingZeros64(mask))
		}
	}
	return cpuset.New(ids...), nil
}

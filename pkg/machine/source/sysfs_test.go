// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // cAdvisor's
	os.Exit(m.Run())
}

// forEach calls f for every machine of the catalogue, with all CPUs, without one,
// without a core, without all of a node, and without any at random; and for random
// machines.
func forEach(t *testing.T, randoms int, f func(t *testing.T, all machine.Machine, offline cpuset.CPUSet)) {
	random := rand.New(rand.NewPCG(3, 9))
	for _, name := range catalog.Names() {
		m, err := catalog.Get(name)
		require.NoError(t, err)
		last := m.CPUs[len(m.CPUs)-1]
		var core, node, any []int
		for _, c := range m.CPUs {
			if c.CoreID() == last.CoreID() {
				core = append(core, c.ID)
			}
			if c.Node == last.Node && len(m.Nodes) > 1 {
				node = append(node, c.ID)
			}
			if c.ID != m.CPUs[0].ID && random.IntN(8) == 0 {
				any = append(any, c.ID)
			}
		}
		for _, offline := range []cpuset.CPUSet{cpuset.New(), cpuset.New(m.CPUs[0].ID), cpuset.New(core...), cpuset.New(node...), cpuset.New(any...)} {
			t.Run(fmt.Sprintf("%s without %s", name, offline), func(t *testing.T) { f(t, m, offline) })
		}
	}
	for i := range randoms {
		m := randomMachine(t, random, fmt.Sprintf("random-%d", i))
		var offline []int
		for _, c := range m.CPUs[1:] {
			if random.IntN(10) == 0 {
				offline = append(offline, c.ID)
			}
		}
		t.Run(m.Name, func(t *testing.T) { f(t, m, cpuset.New(offline...)) })
	}
}

// randomMachine has units of every size, gaps between all IDs, caches that are
// told or not, nodes without CPUs or memory, and CPUs in any order.
func randomMachine(t *testing.T, random *rand.Rand, name string) machine.Machine {
	m := machine.Machine{Name: name}
	distances := random.IntN(3) > 0
	id := 0
	for range 1 + random.IntN(5) {
		n := machine.Node{ID: id, Memory: uint64(random.IntN(1<<20)) << 12}
		left := n.Memory
		for _, size := range []uint64{64 << 10, 2 << 20, 1 << 30} {
			if random.IntN(2) == 0 {
				pages := random.Uint64N(left/size + 1)
				left -= pages * size
				n.HugePages = append(n.HugePages, machine.HugePages{PageSize: size, Pages: pages})
			}
		}
		m.Nodes = append(m.Nodes, n)
		id += 1 + random.IntN(10)
	}
	for i := range m.Nodes {
		for j := range m.Nodes {
			if distances {
				m.Nodes[i].Distances = append(m.Nodes[i].Distances, uint64(10+20*min(i, j)+5*max(i, j)))
			}
		}
	}
	cpus := random.Perm(200)
	caches := map[int]bool{}
	core := random.IntN(3)
	for range 1 + random.IntN(20) {
		threads := 1 + random.IntN(4)
		node := random.IntN(len(m.Nodes))
		socket := node / 2 * 3
		cache := machine.NoCache
		if random.IntN(8) > 0 {
			cache = node*10 + random.IntN(3)
		}
		if random.IntN(8) == 0 && cache != machine.NoCache {
			cache = 99 // on several nodes
		}
		for range threads {
			m.CPUs = append(m.CPUs, machine.CPU{ID: cpus[0], Core: core, Socket: socket, Node: m.Nodes[node].ID, Cache: cache})
			cpus = cpus[1:]
		}
		core += 1 + random.IntN(3)
		if cache != machine.NoCache && !caches[cache] {
			caches[cache] = true
			m.Caches = append(m.Caches, machine.Cache{ID: cache, Size: uint64(1+cache) << 20})
		}
	}
	slices.SortFunc(m.CPUs, func(a, b machine.CPU) int { return a.ID - b.ID })
	slices.SortFunc(m.Caches, func(a, b machine.Cache) int { return a.ID - b.ID })
	require.NoError(t, m.Validate())
	return m
}

// managers is the machine as far as a report tells it: which of a node's caches a
// core uses may get lost.
func managers(t *testing.T, m machine.Machine) machine.Machine {
	is, err := machine.FromMachineInfo(m.Name, m.MachineInfo())
	require.NoError(t, err)
	return is
}

// TestSys reads what Linux would show.
func TestSys(t *testing.T) {
	forEach(t, 300, func(t *testing.T, all machine.Machine, offline cpuset.CPUSet) {
		online := all
		if !offline.IsEmpty() {
			var err error
			online, err = all.Without(offline)
			require.NoError(t, err)
		}
		m, _, err := readSys(all.Name, all.Name, "/", sysOf(t, all, offline).tree(t))
		require.NoError(t, err)
		require.Equal(t, managers(t, online), m)
	})
}

// TestSysWays has the same files where and how copies have them.
func TestSysWays(t *testing.T) {
	m, err := catalog.Get("amd-threadripper-3960x-nps4")
	require.NoError(t, err)
	want := managers(t, m)
	for name, change := range map[string]func(sysFiles) fs.FS{
		"a map":                    func(s sysFiles) fs.FS { return s.mapFS() },
		"below a folder":           func(s sysFiles) fs.FS { return s.below("top").mapFS() },
		"below three":              func(s sysFiles) fs.FS { return s.below("a/b/c").mapFS() },
		"/sys":                     func(s sysFiles) fs.FS { return sub(t, s, "sys") },
		"/sys/devices":             func(s sysFiles) fs.FS { return sub(t, s, "sys/devices") },
		"/sys/devices/system":      func(s sysFiles) fs.FS { return sub(t, s, "sys/devices/system") },
		"without /proc":            func(s sysFiles) fs.FS { s.remove("proc/"); return s.mapFS() },
		"without links":            func(s sysFiles) fs.FS { clear(s.links); return s.mapFS() },
		"without links and lists":  func(s sysFiles) fs.FS { clear(s.links); return masks(s).mapFS() },
		"links that lead nowhere":  func(s sysFiles) fs.FS { setAll(s.links, "."); return s.mapFS() },
		"without shared_cpu_map":   func(s sysFiles) fs.FS { s.remove("shared_cpu_map"); return s.mapFS() },
		"without a list of online": func(s sysFiles) fs.FS { s.remove("cpu/online"); return s.mapFS() },
		"other files": func(s sysFiles) fs.FS {
			s.files["sys/devices/system/cpu/cpu07/topology/core_id"] = "no CPU"
			s.files["sys/devices/system/node/node0/hugepages/free"] = "no pool"
			s.files["sys/devices/system/node/node"] = "no node"
			s.files["sys/bus/cpu/devices/uevent"] = ""
			return s.mapFS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, notes, err := readSys(m.Name, m.Name, "/", change(sysOf(t, m, cpuset.New())))
			require.NoError(t, err)
			require.Equal(t, want, m)
			lacks := []string{m.Name + " tells no hugepages of the NUMA nodes"}
			if strings.HasPrefix(name, "/sys") || name == "without /proc" {
				lacks = append([]string{m.Name + " tells no memory of the machine as a whole (/proc/meminfo); that of its NUMA nodes together is taken for it"}, lacks...)
			}
			require.Equal(t, lacks, notes)
		})
	}
}

func sub(t *testing.T, s sysFiles, folder string) fs.FS {
	files, err := fs.Sub(s.mapFS(), folder)
	require.NoError(t, err)
	return files
}

// masks has nodes' masks of CPUs in the place of lists, as older kernels do.
func masks(s sysFiles) sysFiles {
	for name, list := range s.files {
		if strings.HasSuffix(name, "/cpulist") {
			set, _ := cpuset.Parse(strings.TrimSpace(list))
			s.files[strings.Replace(name, "/cpulist", "/cpumap", 1)] = cpuMap(set.List()) + "\n"
		}
	}
	s.remove("/cpulist")
	return s
}

func setAll(m map[string]string, value string) {
	for key := range m {
		m[key] = value
	}
}

// TestNoCopyForTheMachine has a copy of /sys on a machine without one.
func TestNoCopyForTheMachine(t *testing.T) {
	m := example(t)
	files := sysOf(t, m, cpuset.New()).below("backup").mapFS()
	_, _, err := readSys("this machine", "/", "/", files)
	require.EqualError(t, err, "/: it has no CPUs in /sys/devices/system/cpu")
	_, _, err = readSys("host", "/host", "/", files)
	require.NoError(t, err)
}

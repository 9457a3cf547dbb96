// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/google/cadvisor/lib/utils/sysfs"
	"github.com/google/cadvisor/lib/utils/sysinfo"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

const cpuFolder, nodeFolder = "/sys/devices/system/cpu", "/sys/devices/system/node"

// kernel shows a machine to cAdvisor as Linux does: offline CPUs keep their
// folder, and share no caches.
type kernel struct {
	sysfs.SysFs // nil: what is not implemented is not asked for
	all, online machine.Machine
}

func number(path string) int {
	base := filepath.Base(path)
	n, err := strconv.Atoi(strings.TrimLeft(base, "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		panic(err)
	}
	return n
}

func (k kernel) cpu(path string) machine.CPU {
	id := number(path)
	return k.all.CPUs[slices.IndexFunc(k.all.CPUs, func(c machine.CPU) bool { return c.ID == id })]
}

func (k kernel) node(path string) machine.Node {
	id := number(path)
	return k.all.Nodes[slices.IndexFunc(k.all.Nodes, func(n machine.Node) bool { return n.ID == id })]
}

func (k kernel) GetNodesPaths() (paths []string, _ error) {
	for _, n := range k.all.Nodes {
		paths = append(paths, fmt.Sprintf("%s/node%d", nodeFolder, n.ID))
	}
	slices.Sort(paths) // as filepath.Glob does
	return paths, nil
}

func (k kernel) GetCPUsPaths(folder string) (paths []string, _ error) {
	for _, c := range k.all.CPUs {
		if folder == cpuFolder || c.Node == number(folder) {
			paths = append(paths, fmt.Sprintf("%s/cpu%d", folder, c.ID))
		}
	}
	slices.Sort(paths)
	return paths, nil
}

func (k kernel) GetCoreID(path string) (string, error) { return strconv.Itoa(k.cpu(path).Core), nil }

func (k kernel) GetCPUPhysicalPackageID(path string) (string, error) {
	return strconv.Itoa(k.cpu(path).Socket), nil
}

func (k kernel) IsCPUOnline(path string) bool { return k.online.Online().Contains(number(path)) }

func (k kernel) GetMemInfo(path string) (string, error) {
	return fmt.Sprintf("Node %d MemTotal: %d kB", number(path), k.node(path).Memory/1024), nil
}

func (k kernel) GetDistances(path string) (string, error) {
	var fields []string
	for _, d := range k.node(path).Distances {
		fields = append(fields, strconv.FormatUint(d, 10))
	}
	return strings.Join(fields, " "), nil
}

func (k kernel) GetHugePagesInfo(path string) ([]os.FileInfo, error) {
	var names []string
	for _, h := range k.node(filepath.Dir(strings.TrimSuffix(path, "/"))).HugePages {
		names = append(names, fmt.Sprintf("hugepages-%dkB", h.PageSize/1024))
	}
	return folders(names)
}

func (k kernel) GetHugePagesNr(path, name string) (string, error) {
	for _, h := range k.node(filepath.Dir(strings.TrimSuffix(path, "/"))).HugePages {
		if name == fmt.Sprintf("hugepages-%dkB", h.PageSize/1024) {
			return fmt.Sprintf("%d\n", h.Pages), nil
		}
	}
	return "", os.ErrNotExist
}

func (k kernel) GetCaches(cpu int) ([]os.FileInfo, error) {
	if k.cpu(fmt.Sprint(cpu)).Cache == machine.NoCache {
		return nil, os.ErrNotExist
	}
	return folders([]string{"index3"})
}

func (k kernel) GetCacheInfo(cpu int, _ string) (sysfs.CacheInfo, error) {
	id := k.cpu(fmt.Sprint(cpu)).Cache
	for _, c := range k.online.Caches {
		if c.ID == id {
			sharing := 0
			for _, other := range k.online.CPUs {
				if other.Cache == id {
					sharing++
				}
			}
			return sysfs.CacheInfo{Id: id, Size: c.Size, Type: "Unified", Level: 3, Cpus: sharing}, nil
		}
	}
	return sysfs.CacheInfo{}, errors.New("no such cache")
}

func folders(names []string) ([]os.FileInfo, error) {
	files := fstest.MapFS{}
	for _, name := range names {
		files[name] = &fstest.MapFile{Mode: os.ModeDir}
	}
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var infos []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// TestAsCAdvisorReads has cAdvisor itself read every machine of the catalogue:
// with all CPUs, without one, without a core, and without all of a node.
func TestAsCAdvisorReads(t *testing.T) {
	for _, name := range catalog.Names() {
		m, err := catalog.Get(name)
		require.NoError(t, err)
		last := m.CPUs[len(m.CPUs)-1]
		var core, node []int
		for _, c := range m.CPUs {
			if c.CoreID() == last.CoreID() {
				core = append(core, c.ID)
			}
			if c.Node == last.Node && len(m.Nodes) > 1 {
				node = append(node, c.ID)
			}
		}
		for _, offline := range []cpuset.CPUSet{cpuset.New(), cpuset.New(m.CPUs[0].ID), cpuset.New(core...), cpuset.New(node...)} {
			t.Run(fmt.Sprintf("%s without %s", name, offline), func(t *testing.T) {
				asRead(t, m, offline)
			})
		}
	}
}

// TestAsCAdvisorReadsAtRandom takes any CPUs offline.
func TestAsCAdvisorReadsAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range catalog.Names() {
		m, err := catalog.Get(name)
		require.NoError(t, err)
		for range 3 {
			var offline []int
			for _, c := range m.CPUs[1:] {
				if random.IntN(8) == 0 {
					offline = append(offline, c.ID)
				}
			}
			asRead(t, m, cpuset.New(offline...))
		}
	}
}

// TestAsCAdvisorReadsHugePages has what the catalogue does not have.
func TestAsCAdvisorReadsHugePages(t *testing.T) {
	m, err := machine.Parse("pages.yaml", []byte(`
name: pages
nodes:
- {id: 0, memory: 64Gi, hugepages: {2Mi: 10, 1Gi: 3, 16Mi: 0}, distances: 10 20}
- {id: 3, memory: 64Gi, hugepages: {2Mi: 0, 1Gi: 1, 16Mi: 7}, distances: 20 10}
cpus: [{cpus: 0-11, threads: 4, cache: 1}]`))
	require.NoError(t, err)
	asRead(t, m, cpuset.New())
	// Cores of 4, 3 and 2 threads: to the one of 3 the cache looks like the
	// node's.
	asRead(t, m, cpuset.New(7, 10, 11))
}

func asRead(t *testing.T, m machine.Machine, offline cpuset.CPUSet) {
	online, err := m.Without(offline)
	require.NoError(t, err)
	nodes, cpus, err := sysinfo.GetNodesInfo(kernel{all: m, online: online})
	require.NoError(t, err)
	for i := range nodes {
		// An empty list and none are the same to every reader.
		if len(nodes[i].Cores) == 0 {
			nodes[i].Cores = nil
		}
	}
	info := online.MachineInfo()
	require.Equal(t, cpus, info.NumCores)
	require.Equal(t, nodes, info.Topology)

	back, err := machine.FromMachineInfo(m.Name, &cadvisorapi.MachineInfo{NumCores: cpus, Topology: nodes})
	require.NoError(t, err)
	back.Description, back.Sources = m.Description, m.Sources
	require.Equal(t, online, back)
}

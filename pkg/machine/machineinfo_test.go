// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"
)

func TestMachineInfo(t *testing.T) {
	const gi = 1 << 30
	pages := []cadvisorapi.HugePagesInfo{{PageSize: 1048576, NumPages: 1}, {PageSize: 2048, NumPages: 512}}
	small := cadvisorapi.Cache{Id: 0, Size: 4 << 20, Type: "Unified", Level: 3}
	large := cadvisorapi.Cache{Id: 4, Type: "Unified", Level: 3}
	require.Equal(t, &cadvisorapi.MachineInfo{
		NumCores: 9, NumPhysicalCores: 4, NumSockets: 2, MemoryCapacity: 5 * gi,
		HugePages: pages, CloudProvider: "Unknown", InstanceType: "Unknown",
		Topology: []cadvisorapi.Node{
			{Id: 1, Memory: 4 * gi, HugePages: pages, Distances: []uint64{10, 20, 20}, Cores: []cadvisorapi.Core{
				{Id: 0, Threads: []int{0, 1}, UncoreCaches: []cadvisorapi.Cache{small}},
				{Id: 9, Threads: []int{10, 20}, UncoreCaches: []cadvisorapi.Cache{large}},
				{Id: 10, Threads: []int{11, 21}, UncoreCaches: []cadvisorapi.Cache{large}},
				{Id: 8, Threads: []int{2, 3}, UncoreCaches: []cadvisorapi.Cache{small}},
			}},
			// Sorted as text.
			{Id: 12, Memory: gi, Distances: []uint64{20, 20, 10}},
			{Id: 5, Distances: []uint64{20, 10, 20}, Cores: []cadvisorapi.Core{{Id: 0, Threads: []int{30}, SocketID: 3}}},
		},
	}, mustParse(t, hybrid).MachineInfo())
}

// TestNodeCaches has a cache that is the node's as long as all CPUs are online.
func TestNodeCaches(t *testing.T) {
	m := mustParse(t, `
name: small
nodes: [{id: 0, memory: 1Gi, distances: 10}]
cpus: [{cpus: 0-3, threads: 2, cache: 7}]`)
	cache := cadvisorapi.Cache{Id: 7, Type: "Unified", Level: 3}
	node := m.MachineInfo().Topology[0]
	require.Equal(t, []cadvisorapi.Cache{cache}, node.Caches)
	require.Empty(t, node.Cores[0].UncoreCaches)

	less, err := m.Without(cpuset.New(3))
	require.NoError(t, err)
	node = less.MachineInfo().Topology[0]
	require.Empty(t, node.Caches)
	for _, core := range node.Cores {
		require.Equal(t, []cadvisorapi.Cache{cache}, core.UncoreCaches)
	}
	requireSame(t, m)
	requireSame(t, less)
}

// requireSame checks that nothing is lost on the way to cAdvisor's report and
// back, but for the words about the machine. A report may leave open which of
// a node's caches a core uses; then the caches are not compared.
func requireSame(t *testing.T, m Machine) {
	t.Helper()
	info := m.MachineInfo()
	back, err := FromMachineInfo(m.Name, info)
	require.NoError(t, err)
	back.Description, back.Sources = m.Description, m.Sources
	if ambiguous(m, info) {
		back.Caches = m.Caches
		for i := range back.CPUs {
			back.CPUs[i].Cache = m.CPUs[i].Cache
		}
	}
	require.Equal(t, m, back)
	require.NoError(t, back.Validate())
}

// ambiguous is whether a node has a cache of its own that not all of the node's
// CPUs, or others too, use.
func ambiguous(m Machine, info *cadvisorapi.MachineInfo) bool {
	for _, node := range info.Topology {
		for _, own := range node.Caches {
			for _, c := range m.CPUs {
				if (c.Node == node.Id) != (c.Cache == own.Id) {
					return true
				}
			}
		}
	}
	return false
}

// TestOldReports has caches without IDs, as older versions of cAdvisor report
// them.
func TestOldReports(t *testing.T) {
	m := mustParse(t, `
name: old
nodes: [{id: 0, memory: 1Gi}, {id: 1, memory: 1Gi}]
cpus:
- {cpus: 0-3, threads: 2, socket: 0, node: 0, cache: 0}
- {cpus: 4-7, threads: 2, socket: 1, node: 1, cache: 1}
caches: [{ids: 0-1, size: 1Mi}]`)
	info := m.MachineInfo()
	info.Topology[1].Caches[0].Id = 0
	back, err := FromMachineInfo("old", info)
	require.NoError(t, err)
	require.Equal(t, m, back)
}

// TestCacheSizes has two caches of one ID, which are one to the kubelet.
func TestCacheSizes(t *testing.T) {
	m := mustParse(t, hybrid)
	info := m.MachineInfo()
	info.Topology[0].Cores[0].UncoreCaches[0].Size = 1
	back, err := FromMachineInfo(m.Name, info)
	require.NoError(t, err)
	m.Caches[0].Size = 0
	m.Description, m.Sources = "", nil
	require.Equal(t, m, back)
}

func TestRoundTrip(t *testing.T) {
	m := mustParse(t, hybrid)
	requireSame(t, m)
	for _, cpu := range m.CPUs {
		less, err := m.Without(cpuset.New(cpu.ID))
		require.NoError(t, err)
		requireSame(t, less)
	}
}

func TestFromMachineInfoErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cadvisorapi.MachineInfo)
		want   string
	}{
		"count":      {func(i *cadvisorapi.MachineInfo) { i.NumCores = 8 }, "8 CPUs are reported, the NUMA nodes have 9"},
		"no threads": {func(i *cadvisorapi.MachineInfo) { i.Topology[0].Cores[0].Threads = nil }, "core 0 of socket 0 on NUMA node 1 has no threads"},
		"CPU twice":  {func(i *cadvisorapi.MachineInfo) { i.Topology[0].Cores[0].Threads[0] = 1 }, "CPU 1 is listed twice"},
		"node twice": {func(i *cadvisorapi.MachineInfo) { i.Topology[1].Id = 1 }, "NUMA node 1 is listed twice"},
		"two nodes": {func(i *cadvisorapi.MachineInfo) { i.Topology[2].Cores[0].SocketID = 0 },
			"core 0 of socket 0 has CPU 0 on NUMA node 1 with cache 0 and CPU 30 on NUMA node 5 with no cache"},
		"page size": {func(i *cadvisorapi.MachineInfo) { i.Topology[0].HugePages[0].PageSize = 1 << 60 }, "hugepages of 1152921504606846976 KiB"},
		"distances": {func(i *cadvisorapi.MachineInfo) { i.Topology[1].Distances = []uint64{10} }, "NUMA node 12 has 1 distances, the machine has 3 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			info := mustParse(t, hybrid).MachineInfo()
			test.change(info)
			_, err := FromMachineInfo("recorded", info)
			require.ErrorContains(t, err, "machine recorded: ")
			require.ErrorContains(t, err, test.want)
		})
	}
}

// FuzzParse looks for input that panics, takes for ever, or is accepted though
// it cannot be.
func FuzzParse(f *testing.F) {
	f.Add([]byte(hybrid))
	f.Add([]byte("name: a\nnodes: [{id: 0}]\ncpus: [{cpus: 0-7, threads: 8, cache: 3}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("fuzz.yaml", data)
		if err != nil {
			return
		}
		require.NoError(t, m.Validate())
		requireSame(t, m)
		requireWritten(t, m)
	})
}

// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/topology"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/machine"
)

// counts is what a machine has. nodes are all NUMA nodes, caches the last-level
// caches that it tells.
type counts struct{ cpus, cores, sockets, nodes, withCPUs, caches int }

var want = map[string]counts{
	"amd-epyc-7513-nps4":          {128, 64, 2, 8, 8, 8},
	"amd-epyc-9654-nps1":          {384, 192, 2, 2, 2, 24},
	"amd-epyc-9654-nps4":          {384, 192, 2, 8, 8, 24},
	"amd-threadripper-3960x-nps4": {48, 24, 1, 4, 4, 8},
	"ampere-altra-q80-30":         {160, 160, 2, 2, 2, 0},
	"hpe-superdome-flex":          {1792, 896, 32, 32, 32, 32},
	"ibm-power9":                  {128, 32, 2, 2, 2, 0},
	"intel-i7-14700":              {28, 20, 1, 1, 1, 1},
	"intel-xeon-6787p":            {344, 172, 2, 2, 2, 2},
	"intel-xeon-6787p-snc2":       {344, 172, 2, 4, 4, 2},
	"intel-xeon-6980p-snc3":       {512, 256, 2, 6, 6, 2},
	"kvm-4":                       {4, 4, 1, 1, 1, 1},
	"nvidia-gb200":                {144, 144, 2, 34, 2, 2},
}

func count(m machine.Machine) counts {
	cores, sockets, nodes := map[machine.CoreID]bool{}, map[int]bool{}, map[int]bool{}
	for _, c := range m.CPUs {
		cores[c.CoreID()], sockets[c.Socket], nodes[c.Node] = true, true, true
	}
	return counts{len(m.CPUs), len(cores), len(sockets), len(m.Nodes), len(nodes), len(m.Caches)}
}

// TestCatalogue walks the whole catalogue, with all CPUs and without the first.
func TestCatalogue(t *testing.T) {
	require.Len(t, Names(), len(want))
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			m, err := Get(name)
			require.NoError(t, err)
			require.Equal(t, name, m.Name, "file and machine have the same name")
			require.NotEmpty(t, m.Description)
			require.NotEmpty(t, m.Sources)
			for _, source := range m.Sources {
				require.NotEmpty(t, source)
			}
			require.Equal(t, want[name], count(m))
			for _, c := range m.Caches {
				require.NotZero(t, c.Size, "cache %d", c.ID)
			}
			for _, n := range m.Nodes {
				require.EqualValues(t, 10, n.Distances[position(m, n.ID)], "node %d to itself", n.ID)
			}
			converts(t, m)

			less, err := m.Without(cpuset.New(m.CPUs[0].ID))
			require.NoError(t, err)
			converts(t, less)
		})
	}
}

func position(m machine.Machine, node int) int {
	for i, n := range m.Nodes {
		if n.ID == node {
			return i
		}
	}
	return -1
}

// converts checks the machine against what the CPU manager reads.
func converts(t *testing.T, m machine.Machine) {
	t.Helper()
	info := m.MachineInfo()
	back, err := machine.FromMachineInfo(m.Name, info)
	require.NoError(t, err)
	back.Description, back.Sources = m.Description, m.Sources
	require.Equal(t, m, back)

	logger, _ := ktesting.NewTestContext(t)
	read, err := topology.Discover(logger, info)
	require.NoError(t, err)
	c := count(m)
	require.Equal(t, c.cpus, read.NumCPUs)
	require.Equal(t, c.cores, read.NumCores)
	require.Equal(t, c.sockets, read.NumSockets)
	require.Equal(t, c.withCPUs, read.NumNUMANodes)
	// The CPU manager takes a socket for a cache where none is told.
	if c.caches > 0 {
		require.Equal(t, c.caches, read.NumUncoreCache)
	} else {
		require.Equal(t, c.sockets, read.NumUncoreCache)
	}
	require.True(t, m.Online().Equals(read.CPUDetails.CPUs()))
	plan, err := read.Plan()
	require.NoError(t, err)
	require.Equal(t, m.Online().String(), plan.All().String())
}

func TestUnknown(t *testing.T) {
	_, err := Get("abacus")
	require.ErrorContains(t, err, `unknown machine "abacus", the catalogue has: amd-epyc-7513-nps4, `)
	_, err = Get("../catalog")
	require.Error(t, err)
}

// TestLimits keeps package machine, which has no kubelet packages, at what the
// managers can take.
func TestLimits(t *testing.T) {
	require.Equal(t, numa.MaxNodes-1, machine.MaxManagedNode)
}

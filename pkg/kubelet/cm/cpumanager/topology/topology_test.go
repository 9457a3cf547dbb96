// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"
)

func TestDiscover(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	// Kernel core IDs repeat in each socket; a P core has two threads and an E
	// core one; node 4 has no CPUs; one core tells its cache.
	info := &cadvisorapi.MachineInfo{NumCores: 6, NumSockets: 2, Topology: []cadvisorapi.Node{
		{Id: 0, Cores: []cadvisorapi.Core{
			{Id: 0, SocketID: 0, Threads: []int{8, 0}, UncoreCaches: []cadvisorapi.Cache{{Id: 7}}},
			{Id: 1, SocketID: 0, Threads: []int{1}},
		}},
		{Id: 4},
		{Id: 9, Cores: []cadvisorapi.Core{{Id: 0, SocketID: 1, Threads: []int{2, 10}}}},
		{Id: 10, Caches: []cadvisorapi.Cache{{Id: 0, Level: 2}, {Id: 5, Level: 3}}, Cores: []cadvisorapi.Core{{Id: 1, SocketID: 1, Threads: []int{3}}}},
	}}
	topology, err := Discover(logger, info)
	require.NoError(t, err)
	require.Equal(t, &CPUTopology{
		NumCPUs: 6, NumCores: 4, NumUncoreCache: 4, NumSockets: 2, NumNUMANodes: 3,
		CPUDetails: CPUDetails{
			0: {CoreID: 0, UncoreCacheID: 7}, 8: {CoreID: 0, UncoreCacheID: 7}, 1: {CoreID: 1, UncoreCacheID: 8},
			2: {NUMANodeID: 9, SocketID: 1, CoreID: 2, UncoreCacheID: 9}, 10: {NUMANodeID: 9, SocketID: 1, CoreID: 2, UncoreCacheID: 9},
			3: {NUMANodeID: 10, SocketID: 1, CoreID: 3, UncoreCacheID: 5},
		},
	}, topology)
	require.Equal(t, "0-3,8,10", topology.CPUDetails.CPUs().String())

	plan, err := topology.Plan()
	require.NoError(t, err)
	require.Equal(t, "0-3,8,10", plan.All().String())
	require.Equal(t, "0,9-10", plan.Nodes().String())

	info.Topology[2].Id = 64
	topology, err = Discover(logger, info)
	require.NoError(t, err)
	_, err = topology.Plan()
	require.ErrorContains(t, err, "CPU 2 is on NUMA node 64, which is outside the supported range 0-63")

	info.Topology[0].Cores[1].Threads = nil
	_, err = Discover(logger, info)
	require.ErrorContains(t, err, "NUMA node 0, socket 0: core 1 has no threads")

	_, err = Discover(logger, &cadvisorapi.MachineInfo{})
	require.EqualError(t, err, "could not detect number of cpus")
}

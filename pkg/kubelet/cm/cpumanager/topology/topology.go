// SPDX-License-Identifier: Apache-2.0

// Package topology reads a machine's CPUs from cAdvisor's MachineInfo.
package topology

import (
	"fmt"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/klog/v2"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// CPUInfo says where a CPU sits.
type CPUInfo struct {
	NUMANodeID int
	SocketID   int
	// CoreID is the lowest ID of the CPUs on the core, since the kernel's own
	// core IDs are unique only within a socket.
	CoreID int
	// UncoreCacheID is the ID of the last-level cache. Where the machine does
	// not tell, it stands for the socket and is no cache's ID.
	UncoreCacheID int
}

// CPUDetails is the online CPUs by ID.
type CPUDetails map[int]CPUInfo

// CPUs is the set of all the CPUs.
func (d CPUDetails) CPUs() cpuset.CPUSet {
	ids := make([]int, 0, len(d))
	for id := range d {
		ids = append(ids, id)
	}
	return cpuset.New(ids...)
}

// CPUTopology is the online CPUs of a machine and how many units of each kind
// it has.
type CPUTopology struct {
	NumCPUs        int
	NumCores       int
	NumUncoreCache int
	NumSockets     int
	NumNUMANodes   int
	CPUDetails     CPUDetails
}

// Discover reads the topology. It fails for a machine without CPUs and for a
// core without threads.
func Discover(logger klog.Logger, machineInfo *cadvisorapi.MachineInfo) (*CPUTopology, error) {
	if machineInfo.NumCores == 0 {
		return nil, fmt.Errorf("could not detect number of cpus")
	}
	topology := &CPUTopology{
		NumCPUs:    machineInfo.NumCores,
		NumSockets: machineInfo.NumSockets,
		CPUDetails: CPUDetails{},
	}
	// Behind the IDs of known caches, those that stand for unknown ones begin.
	firstFreeID := 0
	for _, node := range machineInfo.Topology {
		for _, core := range node.Cores {
			if id, known := cacheID(node, core); known {
				firstFreeID = max(firstFreeID, id+1)
			}
		}
	}
	cores, caches, nodes := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, node := range machineInfo.Topology {
		for _, core := range node.Cores {
			if len(core.Threads) == 0 {
				err := fmt.Errorf("NUMA node %d, socket %d: core %d has no threads", node.Id, core.SocketID, core.Id)
				logger.Error(err, "Could not read the CPU topology")
				return nil, err
			}
			info := CPUInfo{
				NUMANodeID:    node.Id,
				SocketID:      core.SocketID,
				CoreID:        slices.Min(core.Threads),
				UncoreCacheID: firstFreeID + core.SocketID,
			}
			if id, known := cacheID(node, core); known {
				info.UncoreCacheID = id
			}
			for _, cpu := range core.Threads {
				topology.CPUDetails[cpu] = info
			}
			cores[info.CoreID], caches[info.UncoreCacheID], nodes[info.NUMANodeID] = true, true, true
		}
	}
	topology.NumCores, topology.NumUncoreCache, topology.NumNUMANodes = len(cores), len(caches), len(nodes)
	return topology, nil
}

// cacheID is the ID of the last-level cache of a core. cAdvisor lists a cache with
// the cores that share it or, if that is all cores of the node, with the node.
func cacheID(node cadvisorapi.Node, core cadvisorapi.Core) (id int, known bool) {
	if len(core.UncoreCaches) > 0 {
		return core.UncoreCaches[0].Id, true
	}
	level := 2
	for _, cache := range node.Caches {
		if cache.Level > level {
			id, known, level = cache.Id, true, cache.Level
		}
	}
	return id, known
}

// Plan is the topology as the core takes it. It fails for what the core cannot
// handle, naming the CPU.
func (t *CPUTopology) Plan() (*cpuplan.Topology, error) {
	cpus := make([]cpuplan.CPU, 0, len(t.CPUDetails))
	for id, info := range t.CPUDetails {
		cpus = append(cpus, cpuplan.CPU{
			ID: id, Core: info.CoreID, Socket: info.SocketID, Node: info.NUMANodeID, Cache: info.UncoreCacheID,
		})
	}
	// The order decides which CPU an error names.
	slices.SortFunc(cpus, func(a, b cpuplan.CPU) int { return a.ID - b.ID })
	return cpuplan.NewTopology(cpus)
}

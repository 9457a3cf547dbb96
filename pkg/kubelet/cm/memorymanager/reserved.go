// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"fmt"
	"math"
	"math/bits"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corehelper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// machineOf makes the machine of the policy out of what cAdvisor found and the
// kubelet's configuration; see memplan.Configure.
func machineOf(policy policyType, machineInfo *cadvisorapi.MachineInfo, nodeAllocatableReservation v1.ResourceList, reservedMemory []kubeletconfig.MemoryReservation) (memplan.Machine, error) {
	nodes, err := nodesOf(machineInfo)
	if err != nil {
		return memplan.Machine{}, err
	}
	c := memplan.Configuration{Policy: string(policy), Reservation: nodeAllocatableReservation}
	for _, r := range reservedMemory {
		c.Reserved = append(c.Reserved, memplan.Reservation{Node: int(r.NumaNode), Limits: r.Limits})
	}
	machine, err := memplan.Configure(c, nodes)
	if err != nil {
		return memplan.Machine{}, err
	}
	return machine.WithDistances(distancesOf(machineInfo.Topology)), nil
}

func nodesOf(machineInfo *cadvisorapi.MachineInfo) ([]memplan.NodeSpec, error) {
	nodes := make([]memplan.NodeSpec, 0, len(machineInfo.Topology))
	for _, node := range machineInfo.Topology {
		spec := memplan.NodeSpec{ID: node.Id, Memory: node.Memory, HugePages: map[string]uint64{}, NoCPUs: len(node.Cores) == 0}
		for _, pages := range node.HugePages {
			size := times(pages.PageSize, 1024) // cAdvisor tells page sizes in KiB
			if size > math.MaxInt64 {
				return nil, fmt.Errorf("[memorymanager] NUMA node %d has hugepages of %d KiB", node.Id, pages.PageSize)
			}
			name := corehelper.HugePageResourceName(*resource.NewQuantity(int64(size), resource.BinarySI))
			spec.HugePages[string(name)] = times(pages.NumPages, size)
		}
		nodes = append(nodes, spec)
	}
	return nodes, nil
}

// distancesOf is nil when they are not told for every node.
func distancesOf(topology []cadvisorapi.Node) *numa.Distances {
	ids, rows := make([]int, len(topology)), make([][]uint64, len(topology))
	for i, node := range topology {
		ids[i], rows[i] = node.Id, node.Distances
	}
	distances, err := numa.NewDistances(ids, rows)
	if err != nil {
		return nil
	}
	return distances
}

// times does not wrap: what is absurdly large stays so, and is refused.
func times(a, b uint64) uint64 {
	if over, product := bits.Mul64(a, b); over == 0 {
		return product
	}
	return math.MaxUint64
}

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corehelper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"

	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// machineOf makes the machine of the Static policy out of what cAdvisor found
// and the kubelet's configuration: reservedMemory says on which NUMA nodes lies
// what nodeAllocatableReservation keeps from pods, so the two must add up to
// the same, resource by resource.
func machineOf(machineInfo *cadvisorapi.MachineInfo, nodeAllocatableReservation v1.ResourceList, reservedMemory []kubeletconfig.MemoryReservation) (memplan.Machine, error) {
	reserved, err := reservedByNode(machineInfo, nodeAllocatableReservation, reservedMemory)
	if err != nil {
		return memplan.Machine{}, err
	}
	specs := make([]memplan.NodeSpec, 0, len(machineInfo.Topology))
	var ordinary uint64
	for _, node := range machineInfo.Topology {
		spec := memplan.NodeSpec{ID: node.Id, Memory: node.Memory, HugePages: map[string]uint64{}, Reserved: reserved[node.Id], NoCPUs: len(node.Cores) == 0}
		for _, pages := range node.HugePages {
			size := times(pages.PageSize, 1024) // cAdvisor tells page sizes in KiB
			if size > math.MaxInt64 {
				return memplan.Machine{}, fmt.Errorf("[memorymanager] NUMA node %d has hugepages of %d KiB", node.Id, pages.PageSize)
			}
			name := corehelper.HugePageResourceName(*resource.NewQuantity(int64(size), resource.BinarySI))
			spec.HugePages[string(name)] = times(pages.NumPages, size)
		}
		ordinary = plus(ordinary, spec.Reserved[memplan.Ordinary])
		specs = append(specs, spec)
	}
	if ordinary == 0 {
		return memplan.Machine{}, errors.New("[memorymanager] you should specify the system reserved memory")
	}
	machine, err := memplan.NewMachine(specs)
	if err != nil {
		return memplan.Machine{}, fmt.Errorf("[memorymanager] the reserved memory does not fit the machine: %w", err)
	}
	return machine.WithDistances(distancesOf(machineInfo.Topology)), nil
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

// plus and times do not wrap: what is absurdly large stays so, and is refused.
func plus(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}

func times(a, b uint64) uint64 {
	if over, product := bits.Mul64(a, b); over == 0 {
		return product
	}
	return math.MaxUint64
}

// reservedByNode checks the reservations and returns them in bytes, by NUMA
// node and resource.
func reservedByNode(machineInfo *cadvisorapi.MachineInfo, nodeAllocatableReservation v1.ResourceList, reservedMemory []kubeletconfig.MemoryReservation) (map[int]map[string]uint64, error) {
	byNode := map[int]map[string]uint64{}
	for _, node := range machineInfo.Topology {
		byNode[node.Id] = map[string]uint64{}
	}
	// Both sides of the comparison get a row for each resource of either.
	given, wanted := v1.ResourceList{}, v1.ResourceList{}
	for name, quantity := range nodeAllocatableReservation {
		if isMemory(name) {
			given[name], wanted[name] = resource.Quantity{}, quantity
		}
	}
	for _, reservation := range reservedMemory {
		table, ok := byNode[int(reservation.NumaNode)]
		if !ok {
			return nil, fmt.Errorf("the reserved memory configuration references a NUMA node %d that does not exist on this machine, which has %v", reservation.NumaNode, slices.Sorted(maps.Keys(byNode)))
		}
		for name, quantity := range reservation.Limits {
			bytes, ok := quantity.AsInt64()
			if !ok || bytes < 0 {
				return nil, fmt.Errorf("could not covert a variable of type Quantity to int64: %s of %s on NUMA node %d", quantity.String(), name, reservation.NumaNode)
			}
			table[string(name)] = plus(table[string(name)], uint64(bytes))
			sum := given[name]
			sum.Add(quantity)
			given[name] = sum
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		have, want := given[name], wanted[name]
		if have.Cmp(want) != 0 {
			return nil, fmt.Errorf("the total amount %q of type %q is not equal to the value %q determined by Node Allocatable feature: reserved are %s",
				have.String(), name, want.String(), perNode(byNode, string(name)))
		}
	}
	return byNode, nil
}

// perNode lists what is reserved of a resource: "1Gi on NUMA node 0, 2Gi on NUMA
// node 1".
func perNode(byNode map[int]map[string]uint64, name string) string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(byNode)) {
		if bytes, ok := byNode[id][name]; ok {
			parts = append(parts, fmt.Sprintf("%s on NUMA node %d", numa.Bytes(bytes), id))
		}
	}
	if len(parts) == 0 {
		return "none on any NUMA node"
	}
	return strings.Join(parts, ", ")
}

func isMemory(name v1.ResourceName) bool {
	return name == v1.ResourceMemory || corehelper.IsHugePageResourceName(name)
}

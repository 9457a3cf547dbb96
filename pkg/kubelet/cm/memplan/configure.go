// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Names of the policies.
const (
	PolicyNone   = "None"
	PolicyStatic = "Static"
	// PolicyBestEffort exists on Windows only.
	PolicyBestEffort = "BestEffort"
)

// Reservation is what the kubelet's configuration reserves on one NUMA node.
type Reservation struct {
	Node   int
	Limits v1.ResourceList
}

// Configuration is what the kubelet's configuration says of the memory manager.
type Configuration struct {
	Policy string
	// Reservation is what the whole node keeps from pods.
	Reservation v1.ResourceList
	// Reserved says on which NUMA nodes that is. The two must add up to the same,
	// resource by resource.
	Reserved []Reservation
}

// Configure checks the configuration against the machine, of whose nodes Reserved
// is not looked at. The machine is the zero value under the policy None.
func Configure(c Configuration, nodes []NodeSpec) (Machine, error) {
	switch c.Policy {
	case PolicyNone:
		return Machine{}, nil
	case PolicyStatic:
	case PolicyBestEffort:
		return Machine{}, fmt.Errorf("policy %q is not available for platform %q", c.Policy, "linux")
	default:
		return Machine{}, fmt.Errorf("unknown policy: %q", c.Policy)
	}
	reserved, err := c.reservedByNode(nodes)
	if err != nil {
		return Machine{}, err
	}
	nodes = slices.Clone(nodes)
	var ordinary uint64
	for i := range nodes {
		nodes[i].Reserved = reserved[nodes[i].ID]
		ordinary = add(ordinary, nodes[i].Reserved[Ordinary])
	}
	if ordinary == 0 {
		return Machine{}, errors.New("[memorymanager] you should specify the system reserved memory")
	}
	machine, err := NewMachine(nodes)
	if err != nil {
		return Machine{}, fmt.Errorf("[memorymanager] the reserved memory does not fit the machine: %w", err)
	}
	return machine, nil
}

// reservedByNode checks the reservations and returns them in bytes, by NUMA
// node and resource.
func (c Configuration) reservedByNode(nodes []NodeSpec) (map[int]map[string]uint64, error) {
	byNode := map[int]map[string]uint64{}
	for _, node := range nodes {
		byNode[node.ID] = map[string]uint64{}
	}
	// Both sides of the comparison get a row for each resource of either.
	given, wanted := v1.ResourceList{}, v1.ResourceList{}
	for name, quantity := range c.Reservation {
		if IsMemory(name) {
			given[name], wanted[name] = resource.Quantity{}, quantity
		}
	}
	for _, reservation := range c.Reserved {
		table, ok := byNode[reservation.Node]
		if !ok {
			return nil, fmt.Errorf("the reserved memory configuration references a NUMA node %d that does not exist on this machine, which has %v", reservation.Node, slices.Sorted(maps.Keys(byNode)))
		}
		for name, quantity := range reservation.Limits {
			bytes, ok := quantity.AsInt64()
			if !ok || bytes < 0 {
				return nil, fmt.Errorf("could not covert a variable of type Quantity to int64: %s of %s on NUMA node %d", quantity.String(), name, reservation.Node)
			}
			table[string(name)] = add(table[string(name)], uint64(bytes))
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

// IsMemory reports whether a resource is ordinary memory or hugepages.
func IsMemory(name v1.ResourceName) bool {
	return name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

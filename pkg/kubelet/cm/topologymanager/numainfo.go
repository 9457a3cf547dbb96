// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// NUMADistances holds for each node ID its distances, by position: the i-th
// number belongs to the i-th lowest ID.
type NUMADistances map[int][]uint64

// NUMAInfo is what a policy knows of the machine.
type NUMAInfo struct {
	// Nodes are the IDs of the online nodes.
	Nodes []int
	// NUMADistances have nil rows unless they are needed.
	NUMADistances NUMADistances
}

// NewNUMAInfo takes over the nodes that cadvisor found, and their distances if
// the options need them. It fails where placement.PolicyOptions.CheckNodes does.
func NewNUMAInfo(topology []cadvisorapi.Node, opts PolicyOptions) (*NUMAInfo, error) {
	ids, rows := nodesOf(topology)
	if err := opts.CheckNodes(ids, rows); err != nil {
		return nil, ofPlatform(err)
	}
	info := &NUMAInfo{Nodes: ids, NUMADistances: NUMADistances{}}
	for i, id := range ids {
		info.NUMADistances[id] = nil
		if opts.NeedsDistances() != "" {
			info.NUMADistances[id] = rows[i]
		}
	}
	return info, nil
}

// nodesOf returns the IDs of the nodes and, at the same index, their distances.
func nodesOf(topology []cadvisorapi.Node) (ids []int, rows [][]uint64) {
	for _, node := range topology {
		ids, rows = append(ids, node.Id), append(rows, node.Distances)
	}
	return ids, rows
}

// ofPlatform says what missing distances mean where there are never any.
func ofPlatform(err error) error {
	var missing placement.MissingDistances
	if runtime.GOOS == "windows" && errors.As(err, &missing) {
		return fmt.Errorf("the %q policy option is not supported on Windows because NUMA node distances are not available", missing.Option)
	}
	return err
}

// DefaultAffinityMask returns the mask of all nodes.
func (n NUMAInfo) DefaultAffinityMask() bitmask.BitMask { return bitmask.FromSet(n.set()) }

// Narrowest returns the mask with fewer nodes or, of equally many, the one
// that is the smaller number.
func (n *NUMAInfo) Narrowest(m1 bitmask.BitMask, m2 bitmask.BitMask) bitmask.BitMask {
	return first(m1, m2, bitmask.ToSet(m1).Narrower(bitmask.ToSet(m2)))
}

// Closest returns the mask with fewer nodes or, of equally many, the one whose
// nodes have the smaller mean distance; at equal distance, the smaller number.
func (n *NUMAInfo) Closest(m1 bitmask.BitMask, m2 bitmask.BitMask) bitmask.BitMask {
	mean1, mean2 := n.NUMADistances.CalculateAverageFor(m1), n.NUMADistances.CalculateAverageFor(m2)
	if m1.Count() != m2.Count() || mean1 == mean2 {
		return n.Narrowest(m1, m2)
	}
	return first(m1, m2, mean1 < mean2)
}

func first(m1, m2 bitmask.BitMask, is bool) bitmask.BitMask {
	if is {
		return m1
	}
	return m2
}

// CalculateAverageFor returns the mean distance over all ordered pairs of nodes
// in bm, a node with itself included. It is 0 where distances are missing.
func (d NUMADistances) CalculateAverageFor(bm bitmask.BitMask) float64 {
	distances, err := d.core()
	if err != nil {
		return 0
	}
	return distances.Mean(bitmask.ToSet(bm))
}

var errIncomplete = errors.New("no distances")

func (d NUMADistances) core() (*numa.Distances, error) {
	if len(d) == 0 {
		return nil, errIncomplete
	}
	ids := slices.Sorted(maps.Keys(d))
	rows := make([][]uint64, len(ids))
	for i, id := range ids {
		rows[i] = d[id]
	}
	return numa.NewDistances(ids, rows)
}

func (n *NUMAInfo) set() numa.Set {
	if n == nil {
		return numa.Set{}
	}
	return numa.SetOf(n.Nodes...)
}

// coreDistances returns what the core may compare distances by, nil when they
// are not wanted. A NUMAInfo that NewNUMAInfo did not check and whose distances
// are incomplete is compared without them.
func (n *NUMAInfo) coreDistances(wanted bool) *numa.Distances {
	if n == nil || !wanted {
		return nil
	}
	distances, err := n.NUMADistances.core()
	if err != nil {
		return nil
	}
	return distances
}

// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// slices takes the slices of long-running containers out of the pod's CPUs: in
// the order of the shares, unless that splits what another arrangement keeps
// together.
func (n *Node) slices(left Set, wanted []podplan.Share) ([]Set, error) {
	taken, err := n.slicesInOrder(left, wanted)
	if err != nil || len(taken) == 0 {
		return nil, err
	}
	sizes, pool := sizesOf(left, wanted)
	now := n.meritOf(taken, left.Difference(union(taken)))
	offered := n.roomsOf(n.offer(left))
	if !n.bound(offered, sizes, pool).betterThan(now) {
		return taken, nil
	}
	other, err := n.takeSlices(n.layOut(offered, sizes, pool))
	if err == nil && n.meritOf(other, left.Difference(union(other))).betterThan(now) {
		return other, nil
	}
	return taken, nil
}

// sizesOf is how large the slices are, and the pool that they leave.
func sizesOf(cpus Set, wanted []podplan.Share) (sizes []int, pool int) {
	pool = cpus.Size()
	for _, share := range wanted {
		sizes = append(sizes, int(share.Slice))
		pool -= int(share.Slice)
	}
	return sizes, pool
}

func union(sets []Set) Set {
	var all Set
	for _, s := range sets {
		all = all.Union(s)
	}
	return all
}

// suitSlices chooses the CPUs of a budget that spans NUMA nodes anew if its
// slices lie better then: 20 CPUs for two slices of 10 are 10 on each of two
// nodes, and not all that one of them has and the rest from the other. It stays
// on the nodes that the budget was on.
func (n *Node) suitSlices(free Set, record Record, shares []podplan.Share, affinity numa.Hint) Record {
	nodes := n.nodesOf(record.Pod)
	if nodes.Size() < 2 || n.options.DistributeAcrossNUMA || !affinity.Any && !nodes.IsSubsetOf(affinity.Nodes) {
		return record
	}
	wanted := longRunning(shares)
	sizes, pool := sizesOf(record.Pod, wanted)
	if len(wanted) == 0 {
		return record
	}
	now := n.meritOfRecord(record, wanted)
	offered := n.roomsOf(free.Intersection(n.topology.OnNodes(nodes)))
	if !n.bound(offered, sizes, pool).betterThan(now) {
		return record
	}
	l := n.layOut(offered, sizes, pool)
	var other Record
	for node, from := range l.cpus {
		count := 0
		for _, part := range l.parts {
			count += part[node]
		}
		cpus, err := n.choose(from, count, numa.Set{})
		if err != nil {
			return record
		}
		other.Pod = other.Pod.Union(cpus)
	}
	other, err := n.carve(other, shares)
	if err != nil || !n.meritOfRecord(other, wanted).betterThan(now) {
		return record
	}
	return other
}

func (n *Node) meritOfRecord(record Record, wanted []podplan.Share) merit {
	var taken []Set
	for _, share := range wanted {
		taken = append(taken, record.Containers[share.Container.Name])
	}
	return n.meritOf(taken, record.Pod.Difference(union(taken)))
}

// longRunning is the shares that are slices of long-running containers.
func longRunning(shares []podplan.Share) []podplan.Share {
	return slices.DeleteFunc(slices.Clone(shares), func(s podplan.Share) bool {
		return s.Slice == 0 || !s.Container.Kind.LongRunning()
	})
}

// initSlice takes the slice of a standard init container out of what it may have:
// as far as possible not out of what is busy when it runs, and if nothing of that
// is needed, on the fewest NUMA nodes.
func (n *Node) initSlice(container string, left, busy Set, count int) (Set, error) {
	idle := left.Difference(busy)
	cpus, err := n.slice(container, left, idle, count)
	if err != nil || n.options.DistributeAcrossNUMA || n.nodesOf(cpus).Size() < 2 || cpus.Overlaps(busy) {
		return cpus, err
	}
	other, err := n.takeSlices(n.layOut(n.roomsOf(n.offer(idle)), []int{count}, 0))
	if err == nil && n.nodesOf(other[0]).Size() < n.nodesOf(cpus).Size() {
		return other[0], nil
	}
	return cpus, nil
}

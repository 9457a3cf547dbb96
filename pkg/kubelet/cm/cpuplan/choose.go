// SPDX-License-Identifier: Apache-2.0

package cpuplan

import "github.com/podslice/podslice/pkg/kubelet/cm/numa"

// packing is how the options want CPUs chosen.
func (o Options) packing() packing {
	return packing{wholeCores: o.FullPCPUsOnly, spread: o.DistributeAcrossCores, caches: o.PreferUncoreCache}
}

// choose takes count CPUs out of from as the options ask. With distribution over
// NUMA nodes they are spread over all the given nodes or, when there are none,
// over as few as it takes.
func (n *Node) choose(from Set, count int, nodes numa.Set) (Set, error) {
	pack := func(from Set, count int) (Set, error) {
		return n.topology.take(from, count, n.options.packing())
	}
	if !n.options.DistributeAcrossNUMA {
		return pack(from, count)
	}
	return n.topology.Distribute(from, count, Distribution{
		Nodes: nodes, WholeCores: n.options.FullPCPUsOnly, BySocket: n.options.AlignBySocket,
	}, pack)
}

// chooseReserved takes count CPUs of an idle machine. Whole cores are not asked
// for, since any number may be reserved.
func chooseReserved(t *Topology, count int, options Options) Set {
	idle := &Node{topology: t, options: options}
	if cpus, err := idle.choose(t.All(), count, numa.Set{}); err == nil {
		return cpus
	}
	idle.options.FullPCPUsOnly = false
	cpus, _ := idle.choose(t.All(), count, numa.Set{})
	return cpus
}

// allocate takes count CPUs out of mine and free: from the affinity's nodes as
// far as these have enough, when aligned by socket from the sockets of these
// nodes next, and then from anywhere. From each of these, mine come before free.
func (n *Node) allocate(free, mine Set, count int, affinity numa.Hint) (Set, error) {
	all := free.Union(mine)
	type tier struct {
		cpus  Set
		nodes numa.Set
	}
	var tiers []tier
	if !affinity.Any {
		near := n.topology.OnNodes(affinity.Nodes)
		tiers = append(tiers, tier{near, affinity.Nodes})
		if n.options.AlignBySocket {
			tiers = append(tiers, tier{n.topology.inSocketsOf(near), numa.Set{}})
		}
	}
	tiers = append(tiers, tier{n.topology.All(), numa.Set{}})
	var taken Set
	for _, tier := range tiers {
		left := all.Difference(taken)
		pool := left.Intersection(tier.cpus)
		want := n.most(pool, left, count-taken.Size())
		cpus, err := n.mineFirst(pool, mine, want, tier.nodes)
		if err != nil {
			return Set{}, err
		}
		taken = taken.Union(cpus)
	}
	if taken.Size() != count {
		return Set{}, &NotEnoughError{Requested: count, Offered: all}
	}
	return taken, nil
}

// mineFirst takes count CPUs out of the pool, as many of them as possible from
// mine. What would be chosen if nothing were mine is best if it has as many;
// otherwise mine are chosen from first, then their siblings, then the rest.
func (n *Node) mineFirst(pool, mine Set, count int, nodes numa.Set) (Set, error) {
	cpus, err := n.choose(pool, count, nodes)
	if err != nil {
		return Set{}, err
	}
	mine = mine.Intersection(pool)
	reused := n.most(mine, pool, count)
	if cpus.Intersection(mine).Size() >= reused {
		return cpus, nil
	}
	taken, err := n.choose(mine, reused, numa.Set{})
	if err != nil {
		return Set{}, err
	}
	if !n.options.DistributeAcrossCores {
		left := pool.Difference(taken)
		siblings := n.topology.Siblings(taken).Intersection(left)
		cpus, err := n.choose(siblings, n.most(siblings, left, count-reused), numa.Set{})
		if err != nil {
			return Set{}, err
		}
		taken = taken.Union(cpus)
	}
	rest, err := n.choose(pool.Difference(taken), count-taken.Size(), numa.Set{})
	if err != nil {
		return Set{}, err
	}
	return taken.Union(rest), nil
}

// allocateWithin is allocate for a container with which the pod comes to hold
// peak CPUs. It chooses those, and the container's out of them, unless it would
// have to leave the affinity's nodes for it.
func (n *Node) allocateWithin(free, mine Set, count, peak int, affinity numa.Hint) (Set, error) {
	alone, err := n.allocate(free, mine, count, affinity)
	if err != nil || peak <= count {
		return alone, err
	}
	block, err := n.allocate(free, mine, peak, affinity)
	if err != nil {
		// The containers after it may find their CPUs yet, on other nodes.
		return alone, nil
	}
	cpus, err := n.allocate(block.Difference(mine), block.Intersection(mine), count, affinity)
	if err != nil {
		return alone, nil
	}
	if !affinity.Any {
		near := n.topology.OnNodes(affinity.Nodes)
		if cpus.Intersection(near).Size() < alone.Intersection(near).Size() {
			return alone, nil
		}
	}
	return cpus, nil
}

// most is how many of need CPUs the pool can give. With whole cores only, it is
// the most for which cores elsewhere in all can give the rest; 0 if none.
func (n *Node) most(pool, all Set, need int) int {
	if !n.options.FullPCPUsOnly {
		return min(need, pool.Size())
	}
	inside := n.topology.WholeCores(pool)
	in := n.topology.countWholeCores(inside)
	out := n.topology.countWholeCores(all.Difference(inside))
	for most := min(need, inside.Size()); most > 0; most-- {
		if n.topology.addUp(in, most) && n.topology.addUp(out, need-most) {
			return most
		}
	}
	return 0
}

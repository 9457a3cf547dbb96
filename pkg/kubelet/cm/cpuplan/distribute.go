// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Distribution says how CPUs are spread over NUMA nodes.
type Distribution struct {
	// Nodes, if not empty, are the nodes of a topology manager's hint: the CPUs
	// are to be spread over all of them.
	Nodes numa.Set
	// WholeCores hands out whole cores only.
	WholeCores bool
	// BySocket prefers nodes of one socket (align-by-socket).
	BySocket bool
}

// Distribute chooses n of the CPUs in from, in equal parts from as few NUMA
// nodes as can give equal parts. It is the kubelet's static policy option
// distribute-cpus-across-numa (KEP-2902). The function take picks CPUs inside
// one node; it also picks all of them where no equal parts can be had.
//
// Without Nodes it tries 1, 2, 3, ... nodes and stops at the first number k of
// nodes for which some k nodes all have the even share, n/k rounded down, and
// together have n. Of several such combinations it takes the one that leaves
// the free CPUs of all nodes most balanced: the lowest standard deviation, and
// among equals the first in the order in which Take uses up nodes. What the
// division leaves over is handed out where that balance is best. With BySocket,
// k nodes of one socket come before k nodes of several, and a combination with
// a small node is allowed: the even share is then what the smallest node has,
// and the rest is left over.
//
// With Nodes the CPUs come from every one of these that has CPUs on offer, and
// CPUs elsewhere are not used (the kubelet narrows the hint to the fewest nodes:
// kubernetes/kubernetes issue 139430). A node that has less than the even share
// gives all it has, and the others share the rest evenly; what is left over goes
// where the balance is best. 176 CPUs of four nodes with 64 each are 44 of each.
// When there are fewer groups to hand out than nodes, each node gives one group
// at the most.
//
// With WholeCores a core that is not on offer with all its threads counts for
// nothing, neither as something to give nor in the balance, and the unit that is
// handed out is a core. When the cores on offer differ in size, a node's part is
// the total of some of its cores that comes closest to the even share; see
// mixedShares.
//
// The kubelet's results are reproduced on machines of up to exactNodes nodes,
// to the rounding of its score. Beyond these it would take seconds to weigh all
// combinations; see wideShares for what is done instead.
//
// The result is a subset of from with exactly n CPUs. The error is a
// NotEnoughError, or what take returned for everything on offer. Equal inputs
// give equal results if take does so.
func (t *Topology) Distribute(from Set, n int, d Distribution, take func(from Set, n int) (Set, error)) (Set, error) {
	from = from.Intersection(t.all)
	if !d.Nodes.IsEmpty() {
		from = from.Intersection(t.OnNodes(d.Nodes))
	}
	if d.WholeCores {
		from = t.WholeCores(from)
	}
	if n <= 0 {
		return Set{}, nil
	}
	if n > from.Size() {
		return Set{}, &NotEnoughError{Requested: n, Offered: from}
	}
	s := t.newSpread(from, n, d)
	if cpus, ok := s.handOut(s.shares(), take); ok {
		return cpus, nil
	}
	cpus, err := take(from, n)
	if err != nil {
		return Set{}, err
	}
	if cpus.Size() != n || !cpus.IsSubsetOf(from) {
		return Set{}, &NotEnoughError{Requested: n, Offered: from}
	}
	return cpus, nil
}

// supply is what one NUMA node has on offer.
type supply struct {
	cpus Set
	// groups is the number of CPUs, in groups.
	groups int
	// socket is the index of the socket that the whole node lies in, or -1.
	socket int
	// cores counts the cores on offer by their size. It is set only when cores
	// of several sizes are on offer.
	cores []int
}

// share is what one node gives, in groups: base at once, and extra from what
// the division left over.
type share struct{ base, extra int }

// spread is one question to Distribute.
type spread struct {
	// nodes are those with CPUs on offer, in the order in which Take uses them
	// up.
	nodes []supply
	// group is how many CPUs are handed out together: 1, or the threads of a
	// core. It is 1 as well when cores differ in size.
	group int
	// largest is the largest core that is handed out as a whole, in CPUs, or 0
	// when cores need not be whole or all have the same size.
	largest int
	// need is the number of CPUs asked for, in groups; indivisible says that
	// they are no whole number of groups.
	need        int
	indivisible bool
	// everywhere says that all nodes are to give.
	everywhere, bySocket bool
	// exact says that all combinations of nodes are weighed.
	exact bool
}

func (t *Topology) newSpread(from Set, n int, d Distribution) *spread {
	s := &spread{group: 1, everywhere: !d.Nodes.IsEmpty(), bySocket: d.BySocket}
	p := picker{t: t, free: from}
	var around []*level
	if outer, _ := t.outerLevels(); outer == &t.sockets {
		around = append(around, outer)
	}
	for _, u := range p.inOrder(&t.nodes, around...) {
		socket := t.sockets.of[u.cpus.first()]
		if !u.cpus.IsSubsetOf(t.sockets.units[socket].cpus) {
			socket = -1
		}
		s.nodes = append(s.nodes, supply{cpus: u.cpus.Intersection(from), socket: socket})
	}
	if d.WholeCores {
		s.countCores(t, from)
	}
	for i := range s.nodes {
		s.nodes[i].groups = s.nodes[i].cpus.Size() / s.group
	}
	s.need, s.indivisible = n/s.group, n%s.group != 0
	s.exact = len(s.nodes) <= exactNodes
	return s
}

// countCores sets group to the size of the cores on offer or, when they have
// several sizes, counts them.
func (s *spread) countCores(t *Topology, from Set) {
	smallest, largest := MaxCPUs, 0
	for _, core := range t.cores.units {
		if size := core.cpus.Size(); core.cpus.IsSubsetOf(from) {
			smallest, largest = min(smallest, size), max(largest, size)
		}
	}
	if smallest == largest {
		s.group = largest
		return
	}
	s.largest = largest
	place := make([]int, len(t.nodes.units))
	for i := range s.nodes {
		s.nodes[i].cores = make([]int, largest+1)
		place[t.nodes.of[s.nodes[i].cpus.first()]] = i
	}
	for _, core := range t.cores.units {
		if core.cpus.IsSubsetOf(from) {
			node := place[t.nodes.of[core.cpus.first()]]
			s.nodes[node].cores[core.cpus.Size()]++
		}
	}
}

// shares is what each node gives, or nil where the CPUs cannot be distributed.
func (s *spread) shares() []share {
	most := min(s.need, len(s.nodes))
	switch {
	case s.indivisible:
		return nil
	case s.largest > 0:
		return s.mixedShares()
	case s.everywhere && s.need >= len(s.nodes):
		return s.levelShares()
	case s.everywhere:
		return s.sharesOf(most)
	}
	for k := 1; k <= most; k++ {
		if shares := s.sharesOf(k); shares != nil {
			return shares
		}
	}
	return nil
}

// sharesOf is what each node gives when k of them give equal parts, or nil.
//
// The kubelet works out from the average node how many nodes are needed at
// least. Fewer never have enough, so that on equal nodes it is the same to begin
// at 1, and on unequal ones the average is wrong.
func (s *spread) sharesOf(k int) []share {
	if s.exact {
		return s.exactShares(k)
	}
	return s.wideShares(k)
}

// levelShares is what each node gives when all of them do: the even share, or
// all that a node has if that is less. There are enough groups for all.
func (s *spread) levelShares() []share {
	base := make([]int, len(s.nodes))
	givers := s.richestFirst(nil)
	rest := s.need
	for {
		poorest := givers[len(givers)-1]
		if s.nodes[poorest].groups >= rest/len(givers) {
			break
		}
		base[poorest] = s.nodes[poorest].groups
		rest -= base[poorest]
		givers = givers[:len(givers)-1]
	}
	even := rest / len(givers)
	for _, i := range givers {
		base[i] = even
		rest -= even
	}
	if !s.exact {
		return s.fromRichest(base, givers, rest)
	}
	slices.Sort(givers) // the order of the nodes decides between equals
	b := s.newBalance()
	b.weigh(base, givers, rest)
	return b.shares
}

// handOut takes the shares. It fails when there are none or take does.
//
// Groups that the division left over are taken one by one, as the kubelet does:
// single CPUs then fill cores that are in use already, where a larger number
// would open whole cores. On wide machines that would cost too many calls.
func (s *spread) handOut(shares []share, take func(Set, int) (Set, error)) (Set, bool) {
	if shares == nil {
		return Set{}, false
	}
	var taken Set
	for i, sh := range shares {
		free := s.nodes[i].cpus
		for sh.base+sh.extra > 0 {
			groups := sh.base
			switch {
			case groups > 0:
				sh.base = 0
			case s.exact:
				groups = 1
				sh.extra--
			default:
				groups = sh.extra
				sh.extra = 0
			}
			cpus, err := take(free, groups*s.group)
			if err != nil || cpus.Size() != groups*s.group || !cpus.IsSubsetOf(free) {
				return Set{}, false
			}
			taken, free = taken.Union(cpus), free.Difference(cpus)
		}
	}
	return taken, true
}

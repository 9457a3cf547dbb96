// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"errors"
	"math"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// errHang is a decision that never ends.
var errHang = errors.New("never returns")

// distribution is a question of how to spread CPUs over NUMA nodes, by KEP-2902.
// Nodes are in the order of their use, and all amounts are CPUs.
type distribution struct {
	*model
	from           cpuset.CPUSet
	n, group       int
	nodes, have    []int
	bySocket, hang bool
}

// sharing is what the nodes give: base each, and what does not divide.
type sharing struct {
	base map[int]int // by place in nodes
	// takers give what does not divide, in turn.
	takers []int
	rest   int
}

// distribute takes n CPUs, spread over all of the near nodes or, without any,
// over as few as can give equal parts.
func (m *model) distribute(from cpuset.CPUSet, n int, whole bool, near uint64) (cpuset.CPUSet, error) {
	if near != 0 && !m.faults.has(shrinksMask) {
		from = m.on(near, from)
	} else {
		near = 0
	}
	if whole {
		from = m.wholeCores(from)
	}
	if n <= 0 {
		return cpuset.New(), nil
	}
	if n > from.Size() {
		return cpuset.CPUSet{}, errNotEnough
	}
	d := &distribution{model: m, from: from, n: n, group: 1, bySocket: m.scenario.Settings.Has(scenario.BySocket)}
	if m.full() {
		d.group = m.average(core)
	}
	if n%d.group != 0 {
		return m.pack(from, n, whole)
	}
	outer, inner := m.levels()
	d.nodes = m.ordered(from, outer)
	if outer == socket {
		d.nodes = m.ordered(from, inner, outer)
	}
	for _, id := range d.nodes {
		d.have = append(d.have, m.in(node, id, from).Size())
	}
	var shares *sharing
	first, last := d.counts()
	switch {
	case near != 0 && n/d.group >= len(d.nodes):
		shares = d.level()
	case near != 0:
		shares = d.best(n / d.group)
	default:
		for k := first; k <= last && shares == nil && !d.hang; k++ {
			shares = d.best(k)
		}
	}
	if d.hang {
		return cpuset.CPUSet{}, errHang
	}
	if shares == nil {
		return m.pack(from, n, whole)
	}
	return d.handOut(shares, whole)
}

// counts is the numbers of nodes to try.
func (d *distribution) counts() (first, last int) {
	last = min(d.n/d.group, len(d.nodes))
	if !d.faults.has(averages) {
		return 1, last
	}
	groups := (d.all.Size()-1)/d.group + 1
	perNode := (groups-1)/len(d.ids(node, d.all)) + 1
	return (d.n/d.group-1)/perNode + 1, last
}

// groups rounds down to groups.
func (d *distribution) groups(n int) int { return n / d.group * d.group }

// subsets calls f for the subsets of size k, in the order of the list. With the
// fault, subsets that f keeps may change under its hands: appending to a slice
// that has room does not copy it.
func (d *distribution) subsets(list []int, k int, f func([]int)) {
	var walk func(from int, chosen []int)
	walk = func(from int, chosen []int) {
		if len(chosen) == k {
			if !d.faults.has(aliases) {
				chosen = slices.Clone(chosen)
			}
			f(chosen)
			return
		}
		for i := from; i <= len(list)-(k-len(chosen)); i++ {
			walk(i+1, append(chosen, list[i]))
		}
	}
	walk(0, []int{})
}

// best weighs all combinations of k nodes; it is nil if none can give.
func (d *distribution) best(k int) *sharing {
	var places []int
	for i := range d.nodes {
		places = append(places, i)
	}
	var chosen, taking []int
	score, oneSocket, found := math.MaxFloat64, false, false
	d.subsets(places, k, func(combination []int) {
		if d.hang || score == 0 && (!d.bySocket || oneSocket) {
			return
		}
		total, totalGroups, each := 0, 0, d.groups(d.n/k)
		for _, i := range combination {
			total += d.have[i]
			totalGroups += d.groups(d.have[i])
			if d.bySocket {
				each = min(each, d.groups(d.have[i]))
			}
		}
		if total < d.n || totalGroups < d.n {
			return
		}
		left := slices.Clone(d.have)
		for _, i := range combination {
			if left[i] -= each; left[i] < 0 {
				return
			}
		}
		local, extra := d.remainder(left, combination, d.n-each*k)
		one := d.bySocket && d.inOneSocket(combination)
		better := local < score
		if d.bySocket && one != oneSocket {
			better = one
		}
		if better {
			score, oneSocket, chosen, taking, found = local, one, combination, extra, true
		}
	})
	if !found || d.hang {
		return nil
	}
	s := &sharing{base: map[int]int{}}
	each := d.groups(d.n / k)
	for _, i := range chosen {
		each = min(each, d.groups(d.have[i]))
	}
	for _, i := range chosen {
		s.base[i] = each
	}
	s.takers, s.rest = taking, d.n-each*k
	return s
}

// remainder finds the subset of the givers from which to take what does not
// divide, with the best balance of what is left on all nodes.
func (d *distribution) remainder(left, givers []int, rest int) (score float64, extra []int) {
	if rest == 0 {
		return deviation(left), nil
	}
	score = math.MaxFloat64
	var able []int
	for _, i := range givers {
		if left[i] >= d.group {
			able = append(able, i)
		}
	}
	for size := len(able); size > 0; size-- {
		d.subsets(able, size, func(subset []int) {
			sum, groups := 0, 0
			for _, i := range subset {
				sum += left[i]
				groups += d.groups(left[i])
			}
			if sum < rest || d.hang {
				return
			}
			if groups < rest {
				// The kubelet hands out groups for as long as there are CPUs.
				d.hang = d.faults.has(neverReturns)
				return
			}
			after, rest := slices.Clone(left), rest
			for rest > 0 {
				for _, i := range subset {
					if rest > 0 && after[i] >= d.group {
						after[i] -= d.group
						rest -= d.group
					}
				}
			}
			if balance := deviation(after); balance < score {
				score, extra = balance, subset
			}
		})
	}
	return score, extra
}

// level has all nodes give: the even share, or all that a node has if that is
// less.
func (d *distribution) level() *sharing {
	s := &sharing{base: map[int]int{}}
	rest := d.n
	var givers []int
	for i := range d.nodes {
		givers = append(givers, i)
	}
	for {
		poor := slices.IndexFunc(givers, func(i int) bool { return d.have[i] < d.groups(rest/len(givers)) })
		if poor < 0 {
			break
		}
		// The poorest first: what it leaves to the others may make more poor.
		for at, i := range givers {
			if d.have[i] < d.have[givers[poor]] {
				poor = at
			}
		}
		i := givers[poor]
		s.base[i] = d.have[i]
		rest -= d.have[i]
		givers = slices.Delete(givers, poor, poor+1)
	}
	each := d.groups(rest / len(givers))
	left := slices.Clone(d.have)
	for _, i := range givers {
		s.base[i] = each
		rest -= each
	}
	for i := range left {
		left[i] -= s.base[i]
	}
	_, s.takers = d.remainder(left, givers, rest)
	s.rest = rest
	return s
}

func (d *distribution) inOneSocket(places []int) bool {
	mask := uint64(0)
	for _, i := range places {
		mask |= 1 << d.nodes[i]
	}
	return len(d.ids(socket, d.on(mask, d.all))) <= 1
}

// handOut takes the shares from the nodes.
func (d *distribution) handOut(s *sharing, whole bool) (cpuset.CPUSet, error) {
	taken := cpuset.New()
	need := d.n
	free := func(i int) cpuset.CPUSet { return d.in(node, d.nodes[i], d.from.Difference(taken)) }
	take := func(i, n int) {
		cpus, err := d.pack(free(i), n, whole)
		if err == nil {
			taken = taken.Union(cpus)
			need -= cpus.Size()
		}
	}
	for i := range d.nodes {
		if s.base[i] > 0 {
			take(i, s.base[i])
		}
	}
	for rest := s.rest; rest > 0; {
		before := rest
		for _, i := range s.takers {
			if rest > 0 && free(i).Size() >= d.group {
				take(i, d.group)
				rest -= d.group
			}
		}
		if rest == before {
			if !d.faults.has(neverReturns) {
				return d.pack(d.from, d.n, whole)
			}
			return taken, errHang
		}
	}
	switch {
	case need > 0:
		return taken, errors.New("accounting error, not enough CPUs allocated")
	case need < 0:
		return taken, errors.New("accounting error, too many CPUs allocated")
	}
	return taken, nil
}

// deviation is KEP-2902's balance score: the standard deviation, with the
// kubelet's rounding of the mean and of the result to three decimals.
func deviation(values []int) float64 {
	round := func(x float64) float64 { return math.Round(x*1000) / 1000 }
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	mean, squares := round(sum/float64(len(values))), 0.0
	for _, v := range values {
		squares += (float64(v) - mean) * (float64(v) - mean)
	}
	return round(math.Sqrt(squares / float64(len(values))))
}

// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// The most changes that are tried: a refusal must not take long.
const (
	mostFreeing = 4
	mostAsking  = 6
)

// tryout reports whether the pod would be admitted with the change, and where.
type tryout func(numa.Change) (numa.Hint, bool)

// freeing says what must become free, and where.
func (r *AffinityRefusal) freeing(try tryout) []string {
	sets := r.singles()
	if nodes, ok := numa.Fit(r.Demands); ok && nodes.Size() > 1 && r.Strictness != SingleNUMANode {
		sets = []numa.Set{nodes}
		if freest := r.freest(nodes.Size()); freest != nodes {
			sets = append(sets, freest)
		}
	}
	var changes []numa.Change
	for _, nodes := range sets {
		change, possible := numa.Change{Nodes: nodes, Free: map[string]uint64{}}, true
		for _, d := range r.Demands {
			supply := d.Of(nodes)
			possible = possible && supply.Allocatable >= d.Asked
			if supply.Free < d.Asked {
				change.Free[d.Resource] = d.Up(d.Asked - supply.Free)
			}
		}
		if possible && len(change.Free) > 0 {
			changes = append(changes, change)
		}
	}
	slices.SortStableFunc(changes, func(a, b numa.Change) int { return cmp.Compare(r.share(a.Free), r.share(b.Free)) })
	var best numa.Change
	found := 0
	for _, c := range changes[:min(len(changes), mostFreeing)] {
		if found > 0 && !maps.Equal(c.Free, best.Free) {
			break
		}
		if _, ok := try(c); !ok {
			continue
		}
		if found++; found == 1 {
			best = c
		}
		best.Nodes = best.Nodes.Union(c.Nodes)
	}
	where := numa.NodeList(best.Nodes)
	switch {
	case found == 0:
		return nil
	case found > 1:
		where = "one of the " + where
	}
	return []string{fmt.Sprintf("freeing %s on %s", r.amounts(best.Free, ""), where)}
}

// asking says how much less would do. Where the pod then lies on one node, and no
// rule is about more than amounts, any less than that would do as well.
func (r *AffinityRefusal) asking(try tryout) []string {
	sets := r.singles()
	if count := len(sets); r.Strictness != SingleNUMANode {
		for size := 2; size <= count; size++ {
			sets = append(sets, r.freest(size))
		}
	}
	var changes []numa.Change
	for _, nodes := range sets {
		change, possible := numa.Change{Container: r.Container, Ask: map[string]uint64{}}, true
		for _, d := range r.Demands {
			if most := d.Down(d.Of(nodes).Free); most < d.Asked {
				change.Ask[d.Resource] = most
				possible = possible && (most > 0 || d.Allocatable() == 0)
			}
		}
		same := func(c numa.Change) bool { return maps.Equal(c.Ask, change.Ask) }
		if possible && len(change.Ask) > 0 && !slices.ContainsFunc(changes, same) {
			changes = append(changes, change)
		}
	}
	slices.SortStableFunc(changes, func(a, b numa.Change) int { return cmp.Compare(r.given(a.Ask), r.given(b.Ask)) })
	cpu, _ := r.demand("cpu")
	for _, c := range changes[:min(len(changes), mostAsking)] {
		affinity, ok := try(c)
		// The rule may take a CPU more, or the rest of a core.
		for less := 1; !ok && cpu.Rule != "" && less <= 2; less++ {
			if count := min(cpu.Asked, cpu.Free()); c.Ask["cpu"] > 1 || c.Ask["cpu"] == 0 && count > 1 {
				c.Ask["cpu"] = cmp.Or(c.Ask["cpu"], count) - 1
				affinity, ok = try(c)
			}
		}
		if !ok {
			continue
		}
		bound := "at most "
		if r.Scope != ScopePod || affinity.Any || affinity.Nodes.Size() != 1 || cpu.Rule != "" {
			bound = ""
		}
		return []string{"asking for " + r.amounts(c.Ask, bound)}
	}
	return nil
}

// singles are the nodes that have anything of what is asked for.
func (r *AffinityRefusal) singles() (sets []numa.Set) {
	for id := range r.Nodes.All() {
		nodes := numa.SetOf(id)
		if slices.ContainsFunc(r.Demands, func(d numa.Demand) bool { return d.Of(nodes).Allocatable > 0 }) {
			sets = append(sets, nodes)
		}
	}
	return sets
}

// freest is that many nodes which have the most of what is asked for.
func (r *AffinityRefusal) freest(count int) numa.Set {
	sets := r.singles()
	rest := func(nodes numa.Set) (sum float64) {
		for _, d := range r.Demands {
			sum += 1 - min(1, float64(d.Of(nodes).Free)/float64(d.Asked))
		}
		return sum
	}
	slices.SortStableFunc(sets, func(a, b numa.Set) int { return cmp.Compare(rest(a), rest(b)) })
	var all numa.Set
	for _, nodes := range sets[:min(count, len(sets))] {
		all = all.Union(nodes)
	}
	return all
}

// share is how much the amounts are of what is asked for, given how much is given up
// by asking for them, added up over the resources.
func (r *AffinityRefusal) share(amounts map[string]uint64) (sum float64) {
	for _, d := range r.Demands {
		sum += float64(amounts[d.Resource]) / float64(d.Asked)
	}
	return sum
}

func (r *AffinityRefusal) given(ask map[string]uint64) (sum float64) {
	for _, d := range r.Demands {
		if most, less := ask[d.Resource]; less {
			sum += 1 - float64(most)/float64(d.Asked)
		}
	}
	return sum
}

// amounts writes them: "at most 3 CPUs and 7Gi of memory".
func (r *AffinityRefusal) amounts(of map[string]uint64, bound string) string {
	var some, none []string
	for _, d := range r.Demands {
		quantity, there := of[d.Resource]
		switch {
		case there && quantity == 0:
			none = append(none, "no "+d.Resource+", of which no NUMA node has any for pods")
		case there:
			some = append(some, amount(d, quantity))
		}
	}
	if len(some) > 0 {
		some[0] = bound + some[0]
	}
	return strings.Join(append(some, none...), " and ")
}

// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Help says what would make the admission possible, the smallest change first.
// It is empty where that is not known. The parts fit after "would help:", joined
// by "or".
func (r *AffinityRefusal) Help() []string {
	if r.Cause != "" || r.Strictness == "" {
		return nil
	}
	for _, d := range r.Demands {
		switch most := d.Allocatable(); {
		case most == 0 && d.Asked > 0:
			return []string{"asking for no " + d.Resource + ", of which no NUMA node has any for pods"}
		case d.Asked > most:
			return []string{"asking for at most " + amount(d, most)}
		}
	}
	for _, o := range r.Objections {
		if o.Reason == numa.Offline {
			return []string{fmt.Sprintf("a provider of %s that knows the NUMA nodes of this machine (%s)", o.Resource, r.Nodes)}
		}
	}
	var help []string
	if narrowest, ok := numa.Fit(r.Demands); ok && r.Strictness == SingleNUMANode && narrowest.Size() > 1 {
		help = r.smaller()
		if !slices.ContainsFunc(r.Objections, func(o numa.Objection) bool { return o.Reason == numa.Unavailable }) {
			help = append(help, "policy restricted or best-effort")
		}
		return help
	}
	free := true // as far as amounts are known
	for _, o := range r.causes() {
		d, ok := r.demand(o.Resource)
		switch {
		case !ok:
			// Of devices only the provider knows how many there are.
			free = free && o.Reason != numa.Unavailable
		case d.Free() < d.Asked:
			return []string{"freeing " + amount(d, d.Asked-d.Free())}
		case o.Reason == numa.Spread || o.Reason == numa.Unavailable:
			if text := missing(d); text != "" {
				help = append(help, text)
			}
			free = free && o.Reason == numa.Spread
		}
	}
	if len(help) > 1 {
		help = nil // all of them together; too long to say
	}
	if free {
		help = append(help, "policy best-effort")
	}
	return help
}

// smaller are requests that fit one node.
func (r *AffinityRefusal) smaller() (help []string) {
	for _, d := range r.Demands {
		var most uint64
		for _, s := range d.Nodes {
			most = max(most, s.Allocatable)
		}
		if d.Asked > most {
			help = append(help, "asking for at most "+amount(d, most))
			break
		}
	}
	if r.Scope == ScopePod && r.Containers > 1 {
		help = append(help, "scope container")
	}
	return help
}

// missing says what must become free on one node; it is empty if one node is
// not enough, or amounts are not what keeps the resource from a node.
func missing(d numa.Demand) string {
	var least uint64
	var where numa.Set
	for _, s := range d.Nodes {
		if s.Allocatable < d.Asked {
			continue
		}
		if s.Free >= d.Asked {
			return ""
		}
		switch lacks := d.Asked - s.Free; {
		case where.IsEmpty() || lacks < least:
			least, where = lacks, numa.SetOf(s.Node)
		case lacks == least:
			where = where.Union(numa.SetOf(s.Node))
		}
	}
	switch where.Size() {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("freeing %s on NUMA node %s", amount(d, least), where)
	}
	return fmt.Sprintf("freeing %s on one of the NUMA nodes %s", amount(d, least), where)
}

// amount says of what it is where the unit does not: "2Gi of memory", "2 CPUs".
func amount(d numa.Demand, quantity uint64) string {
	if d.Unit != "" {
		return d.Amount(quantity)
	}
	return d.Amount(quantity) + " of " + d.Resource
}

// isShort reports whether no single node has as much free as is asked for.
func isShort(d numa.Demand) bool {
	return !slices.ContainsFunc(d.Nodes, func(s numa.Supply) bool { return s.Free >= d.Asked })
}

// causes are the objections without those of resources that can be had, and are
// unavailable only since their provider gives them together with one that
// cannot: memory comes with its hugepages.
func (r *AffinityRefusal) causes() []numa.Objection {
	short := slices.ContainsFunc(r.Objections, func(o numa.Objection) bool {
		d, ok := r.demand(o.Resource)
		return ok && o.Reason == numa.Unavailable && isShort(d)
	})
	return slices.DeleteFunc(slices.Clone(r.Objections), func(o numa.Objection) bool {
		d, ok := r.demand(o.Resource)
		return short && ok && o.Reason == numa.Unavailable && !isShort(d)
	})
}

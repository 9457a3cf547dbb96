// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// What is said to help has been tried: each change for itself admits the pod on the
// node as it is. A change is a guess from the amounts, and dropped if the trial says
// so, because amounts do not tell everything: the resources may need different
// numbers of nodes, only whole cores may count, a container that was not looked at
// yet may be refused as well.

// help finds what would make the admission possible, the smallest changes first. The
// parts fit after "would help:", joined by "or".
func (a *admission) help(r *AffinityRefusal) []string {
	policies, ok := a.decider.(interface{ With(Strictness) Policy })
	if !ok || r.Cause != "" {
		return nil
	}
	for _, o := range r.Objections {
		if o.Reason == numa.Offline {
			return []string{fmt.Sprintf("a provider of %s that knows the NUMA nodes of this machine (%s)", o.Resource, r.Nodes)}
		}
	}
	same := policies.With(r.Strictness)
	with := func(change numa.Change) (numa.Hint, bool) { return a.would(change, a.scope, same) }
	help := append(r.freeing(with), r.asking(with)...)
	if r.Scope == ScopePod && r.Containers > 1 {
		if _, ok := a.would(numa.Change{}, ScopeContainer, same); ok {
			text := "scope container"
			if r.PodLevel {
				text += " (containers that share then run in the node shared pool)"
			}
			help = append(help, text)
		}
	}
	var others []string
	for _, s := range []Strictness{Restricted, BestEffort} {
		if r.Strictness == s {
			continue
		}
		if _, ok := a.would(numa.Change{}, a.scope, policies.With(s)); ok {
			others = append(others, string(s))
		}
	}
	if len(others) > 0 {
		help = append(help, "policy "+strings.Join(others, " or "))
	}
	return help
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

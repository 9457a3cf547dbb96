// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"fmt"
	"slices"
	"strings"
)

// Reason is how a resource stands in the way of a preferred affinity.
type Reason int

const (
	// Unavailable: no set of nodes has what is asked for.
	Unavailable Reason = iota
	// Spread: it can be had, but only from more nodes than it should need.
	Spread
	// Apart: it has preferred nodes, but not those that the others prefer.
	Apart
	// Offline: all its preferred nodes are unknown to the machine.
	Offline
)

// Objection says why one resource kept the affinity from being preferred.
type Objection struct {
	Resource string
	Reason   Reason
	// SingleNode repeats that only single nodes were of use.
	SingleNode bool
	// Preferred are the masks that the resource prefers, the narrowest first,
	// when the Reason is Apart or Offline.
	Preferred []Set
}

// shownMasks is how many masks an Objection writes out.
const shownMasks = 4

// String is a part of a sentence, for example "memory: preferred on NUMA nodes
// {0} or {1}, on which not all resources agree".
func (o Objection) String() string {
	switch {
	case o.Reason == Unavailable:
		return fmt.Sprintf("%s: not available on any set of NUMA nodes", o.Resource)
	case o.Reason == Spread && o.SingleNode:
		return fmt.Sprintf("%s: not available on any single NUMA node", o.Resource)
	case o.Reason == Spread:
		return fmt.Sprintf("%s: available only from more NUMA nodes than it should need", o.Resource)
	}
	names := make([]string, 0, shownMasks+1)
	for i, s := range o.Preferred {
		if i == shownMasks && len(o.Preferred) > shownMasks+1 {
			names = append(names, fmt.Sprintf("%d others", len(o.Preferred)-shownMasks))
			break
		}
		names = append(names, "{"+s.String()+"}")
	}
	why := "on which not all resources agree"
	if o.Reason == Offline {
		why = "which are not online"
	}
	return fmt.Sprintf("%s: preferred on NUMA nodes %s, %s", o.Resource, strings.Join(names, " or "), why)
}

// Objections says which resources stood in the way of a preferred affinity, in
// the order of the resources. Resources that differ are of interest only when
// each of them could have been satisfied alone. It is for results of Merge that
// are not preferred.
func Objections(all Set, resources []Resource, singleNode bool) []Objection {
	w := newWorkspace()
	defer w.release()
	lists := w.choices(resources, singleNode)
	var alone, apart []Objection
	for i, r := range resources {
		content, masks := preference(lists[i])
		o := Objection{Resource: r.Name, SingleNode: singleNode}
		switch {
		case content:
		case len(r.Hints) == 0:
			o.Reason = Unavailable
			alone = append(alone, o)
		case masks == 0:
			o.Reason = Spread
			alone = append(alone, o)
		default:
			o.Reason = Offline
			for _, h := range lists[i] {
				if !h.Preferred {
					continue
				}
				o.Preferred = append(o.Preferred, h.Nodes)
				if !h.Nodes.Intersection(all).IsEmpty() {
					o.Reason = Apart
				}
			}
			slices.SortFunc(o.Preferred, func(a, b Set) int {
				switch {
				case a == b:
					return 0
				case a.Narrower(b):
					return -1
				}
				return 1
			})
			o.Preferred = slices.Compact(o.Preferred)
			if o.Reason == Offline {
				alone = append(alone, o)
			} else {
				apart = append(apart, o)
			}
		}
	}
	if len(alone) > 0 {
		return alone
	}
	return apart
}

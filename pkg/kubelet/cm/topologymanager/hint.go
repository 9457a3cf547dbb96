// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// TopologyHint is a set of NUMA nodes from which a resource could come, or, as
// the result of a merge, from which the resources of a container are to come.
type TopologyHint struct {
	// NUMANodeAffinity is nil when any node will do.
	NUMANodeAffinity bitmask.BitMask
	// Preferred marks a hint that uses as few nodes as the request needs.
	Preferred bool
}

// IsEqual reports whether both hints say the same. "Any node" equals only
// itself, not the mask of all nodes.
func (th *TopologyHint) IsEqual(topologyHint TopologyHint) bool {
	return HintToNUMA(*th) == HintToNUMA(topologyHint)
}

// LessThan orders hints from the best to the worst: preferred before not
// preferred, then the narrower mask first. "Any node" comes last among its
// like.
func (th *TopologyHint) LessThan(other TopologyHint) bool {
	a, b := HintToNUMA(*th), HintToNUMA(other)
	switch {
	case a.Preferred != b.Preferred:
		return a.Preferred
	case a.Any || b.Any:
		return !a.Any && b.Any
	default:
		return a.Nodes.Narrower(b.Nodes)
	}
}

// HintFromNUMA turns a hint of the core into the kubelet's.
func HintFromNUMA(hint numa.Hint) TopologyHint {
	if hint.Any {
		return TopologyHint{Preferred: hint.Preferred}
	}
	return TopologyHint{NUMANodeAffinity: bitmask.FromSet(hint.Nodes), Preferred: hint.Preferred}
}

// HintToNUMA turns a hint of the kubelet into the core's.
func HintToNUMA(hint TopologyHint) numa.Hint {
	if hint.NUMANodeAffinity == nil {
		return numa.Hint{Any: true, Preferred: hint.Preferred}
	}
	return numa.Hint{Nodes: bitmask.ToSet(hint.NUMANodeAffinity), Preferred: hint.Preferred}
}

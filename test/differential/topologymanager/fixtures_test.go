// SPDX-License-Identifier: Apache-2.0

package topologymanager_test

import (
	"fmt"
	"math/rand/v2"

	theirs "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	theirmask "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"

	ours "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
	ourmask "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

// hint is a hint that belongs to neither side.
type hint struct {
	nodes     []int // nil: any
	preferred bool
}

// answer is what a provider says: lists by resource name. Nil answers and nil
// and empty lists mean different things and are handed on as they are.
type answer map[string][]hint

func (h hint) ours() ours.TopologyHint {
	if h.nodes == nil {
		return ours.TopologyHint{Preferred: h.preferred}
	}
	m, err := ourmask.NewBitMask(h.nodes...)
	if err != nil {
		panic(err)
	}
	return ours.TopologyHint{NUMANodeAffinity: m, Preferred: h.preferred}
}

func (h hint) theirs() theirs.TopologyHint {
	if h.nodes == nil {
		return theirs.TopologyHint{Preferred: h.preferred}
	}
	m, err := theirmask.NewBitMask(h.nodes...)
	if err != nil {
		panic(err)
	}
	return theirs.TopologyHint{NUMANodeAffinity: m, Preferred: h.preferred}
}

// in turns an answer into one side's hints.
func in[H any](a answer, convert func(hint) H) map[string][]H {
	if a == nil {
		return nil
	}
	hints := map[string][]H{}
	for name, list := range a {
		if list == nil {
			hints[name] = nil
			continue
		}
		hints[name] = []H{}
		for _, h := range list {
			hints[name] = append(hints[name], convert(h))
		}
	}
	return hints
}

func textOfOurs(h ours.TopologyHint) string {
	if h.NUMANodeAffinity == nil {
		return fmt.Sprintf("any %t", h.Preferred)
	}
	return fmt.Sprintf("%v %t", h.NUMANodeAffinity, h.Preferred)
}

func textOfTheirs(h theirs.TopologyHint) string {
	if h.NUMANodeAffinity == nil {
		return fmt.Sprintf("any %t", h.Preferred)
	}
	return fmt.Sprintf("%v %t", h.NUMANodeAffinity, h.Preferred)
}

// world is a machine that both sides know.
type world struct {
	ids     []int
	rows    map[int][]uint64
	closest bool
}

func (w world) ours() (*ours.NUMAInfo, ours.PolicyOptions) {
	return &ours.NUMAInfo{Nodes: w.ids, NUMADistances: w.rows}, ours.PolicyOptions{PreferClosestNUMA: w.closest}
}

func (w world) theirs() (*theirs.NUMAInfo, theirs.PolicyOptions) {
	return &theirs.NUMAInfo{Nodes: w.ids, NUMADistances: w.rows}, theirs.PolicyOptions{PreferClosestNUMA: w.closest}
}

// randomWorld has gaps between its IDs now and then, but then no distances:
// upstream looks them up by ID where they stand by position.
func randomWorld(r *rand.Rand) world {
	w := world{rows: map[int][]uint64{}, closest: r.IntN(2) == 0}
	n := 1 + r.IntN(8)
	for i := range n {
		id := i
		if !w.closest {
			id = 2*i + r.IntN(2)
		}
		w.ids = append(w.ids, id)
		w.rows[id] = nil
		if w.closest {
			for j := range n {
				distance := 10
				if i != j {
					distance = 20 + r.IntN(3)
				}
				w.rows[id] = append(w.rows[id], uint64(distance))
			}
		}
	}
	return w
}

func (w world) randomAnswer(r *rand.Rand, resources ...string) answer {
	if r.IntN(6) == 0 {
		return nil
	}
	a := answer{}
	for _, name := range resources {
		switch r.IntN(15) {
		case 0:
			a[name] = nil
		case 1:
			a[name] = []hint{}
		default:
			likely := r.IntN(4)
			for range 1 + r.IntN(5) {
				h := hint{preferred: r.IntN(3) < likely}
				if r.IntN(12) > 0 {
					h.nodes = []int{}
					for _, id := range w.ids {
						if r.IntN(2) == 0 {
							h.nodes = append(h.nodes, id)
						}
					}
					if r.IntN(15) == 0 {
						h.nodes = append(h.nodes, 20+r.IntN(3)) // a node that is not online
					}
				}
				a[name] = append(a[name], h)
			}
		}
	}
	return a
}

var policies = map[string]struct {
	ours   func(*ours.NUMAInfo, ours.PolicyOptions) ours.Policy
	theirs func(*theirs.NUMAInfo, theirs.PolicyOptions) theirs.Policy
}{
	"best-effort":      {ours.NewBestEffortPolicy, theirs.NewBestEffortPolicy},
	"restricted":       {ours.NewRestrictedPolicy, theirs.NewRestrictedPolicy},
	"single-numa-node": {ours.NewSingleNumaNodePolicy, theirs.NewSingleNumaNodePolicy},
}

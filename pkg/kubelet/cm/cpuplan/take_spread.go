// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"cmp"
	"slices"
)

// takeSpread completes the need with single threads. Sockets are used in the
// order of the fewest free CPUs, and within a socket one thread of each core is
// taken before a second one of any, by ascending ID. What counts is which
// threads of a core are free, not how the machine numbers them: siblings may
// have IDs next to each other or far apart (kubernetes/kubernetes issue 140688).
func (p *picker) takeSpread() {
	type place struct{ turn, id int }
	first, second := p.t.outerLevels()
	sockets := p.inOrder(first)
	if first != &p.t.sockets {
		sockets = p.inOrder(second, first)
	}
	for _, socket := range sockets {
		var order []place
		for _, core := range p.t.cores.units {
			if !core.cpus.Overlaps(socket.cpus) {
				continue
			}
			turn := 0
			for id := range core.cpus.Intersection(p.free).All() {
				order = append(order, place{turn, id})
				turn++
			}
		}
		slices.SortFunc(order, func(a, b place) int {
			return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.id, b.id))
		})
		ids := make([]int, 0, min(p.need, len(order)))
		for _, place := range order[:min(p.need, len(order))] {
			ids = append(ids, place.id)
		}
		p.take(NewSet(ids...))
	}
}

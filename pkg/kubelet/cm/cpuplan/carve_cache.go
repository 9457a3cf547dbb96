// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"cmp"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// cacheAligned returns the slices of a pod such that as many of them as possible
// lie in one last-level cache each. It is inOrder unless more can. Slices that
// cannot all be aligned, or that are larger than any cache, come out of what the
// aligned ones leave.
func (n *Node) cacheAligned(pool Set, wanted []podplan.Share, inOrder []Set) []Set {
	aligned := 0
	for _, cpus := range inOrder {
		if n.topology.InOneCache(cpus) {
			aligned++
		}
	}
	if aligned == len(wanted) {
		return inOrder
	}
	var caches []Set
	var room []int
	for _, cache := range n.topology.caches.units {
		if inside := n.offer(pool).Intersection(cache.cpus); !inside.IsEmpty() {
			caches = append(caches, inside)
			room = append(room, inside.Size())
		}
	}
	sizes := make([]int, len(wanted))
	for i, share := range wanted {
		sizes[i] = int(share.Slice)
	}
	cacheOf, found := fillCaches(sizes, room)
	if found <= aligned {
		return inOrder
	}
	taken := make([]Set, len(wanted))
	left := pool
	for i, cache := range cacheOf {
		if cache < 0 {
			continue
		}
		cpus, err := n.choose(caches[cache].Intersection(left), sizes[i], numa.Set{})
		if err != nil {
			return inOrder
		}
		taken[i] = cpus
		left = left.Difference(cpus)
	}
	for i, cache := range cacheOf {
		if cache >= 0 {
			continue
		}
		cpus, err := n.choose(left, sizes[i], numa.Set{})
		if err != nil {
			return inOrder
		}
		taken[i] = cpus
		left = left.Difference(cpus)
	}
	return taken
}

// fillLimit bounds the search of fillCaches. It is enough to try everything for a
// pod of a dozen slices; beyond it, the best that was found is used.
const fillLimit = 20_000

// fillCaches distributes slices of the given sizes over caches with the given
// room, such that as many as possible lie in one cache, and returns the cache of
// each slice, -1 for those that lie in none, and how many lie in one. It is a
// depth-first search, the largest slice and the smallest sufficient cache first.
func fillCaches(sizes, room []int) (cacheOf []int, found int) {
	order := make([]int, len(sizes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	room = slices.Clone(room)
	current := slices.Repeat([]int{-1}, len(sizes))
	cacheOf, found = slices.Clone(current), 0
	steps := 0
	var place func(at, aligned int)
	place = func(at, aligned int) {
		if aligned > found {
			found = aligned
			copy(cacheOf, current)
		}
		steps++
		if at == len(order) || aligned+len(order)-at <= found || steps > fillLimit {
			return
		}
		i := order[at]
		byRoom := make([]int, 0, len(room))
		for cache := range room {
			if room[cache] >= sizes[i] {
				byRoom = append(byRoom, cache)
			}
		}
		slices.SortStableFunc(byRoom, func(a, b int) int { return cmp.Compare(room[a], room[b]) })
		last := -1
		for _, cache := range byRoom {
			// Caches with equal room lead to equal results.
			if room[cache] == last {
				continue
			}
			last = room[cache]
			room[cache] -= sizes[i]
			current[i] = cache
			place(at+1, aligned+1)
			current[i] = -1
			room[cache] += sizes[i]
		}
		place(at+1, aligned)
	}
	place(0, 0)
	return cacheOf, found
}

// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// fault is a set of faults of the kubelet's own CPU manager, one to a bit. The
// model decides with or without each of them, whatever the order. A difference between the sides is
// explained by the smallest set of faults with which the model decides as the
// kubelet's own manager did; without any it must decide as ours.
//
// Numbers are issues of kubernetes/kubernetes. All are described in
// docs/differences.md.
type fault uint32

const (
	// averages: whether a core or socket is free is told by comparing its free
	// CPUs with the average core or socket, and then all its CPUs are taken,
	// free or not (140495, 124066). It needs a machine with unequal units.
	averages fault = 1 << iota
	// neverReturns: distribute-cpus-across-numa with full-pcpus-only hands out
	// whole cores for as long as there are CPUs, which may be half cores (140730).
	neverReturns
	// reservedCount: CPUs that no pod can get count when the narrowest set of
	// NUMA nodes for a request is sought (132187).
	reservedCount
	// halfCores: full-pcpus-only counts free threads where it means cores: hints
	// name nodes without whole cores, so that the pod is refused for its affinity
	// where no affinity would help, and half cores are given out.
	halfCores
	// smtWithoutReuse: full-pcpus-only refuses a container for which there would
	// be room in what its pod's ended init containers have.
	smtWithoutReuse
	// initPins: nodes that do not hold all CPUs of the pod's ended init
	// containers are never offered, even if no other ones will do (94220, 123816).
	initPins
	// initAlone: an init container is placed without regard to the containers
	// after it (94220), and CPUs of ended init containers are not preferred to
	// others (112228).
	initAlone
	// emptiesPool: the last CPU of the node shared pool can be given out under
	// strict-cpu-reservation (141196).
	emptiesPool
	// splitSlices: full-pcpus-only holds for a pod's total and not for the slices
	// in it.
	splitSlices
	// initOverPool: the slice of an init container may be CPUs that sidecars in
	// the pod shared pool run on already.
	initOverPool
	// hintsAnew: the hints of a pod that is on record are made from CPU counts:
	// none for a pod with a shared pool (140989), and many, maybe none of them
	// preferred, for others.
	hintsAnew
	// allocatesAnew: a pod with a budget that is on record is allocated again
	// (140989).
	allocatesAnew
	// widensToSockets: align-by-socket forgets the NUMA nodes of the affinity for
	// their sockets (136572, 122295).
	widensToSockets
	// socketAverage: align-by-socket counts the sockets that a request needs by
	// the average number of nodes in one, reserved CPUs included (132187).
	socketAverage
	// spreadsByID: distribute-cpus-across-cores takes the lowest IDs, which are
	// siblings on many machines (140688).
	spreadsByID
	// partialCache: prefer-align-cpus-by-uncorecache looks only at the cores with
	// the lowest IDs of a cache, and may leave a cache that has room (137315).
	partialCache

	// breaksCores: a core is broken although cores of several sizes that are free
	// add up to what is needed.
	breaksCores
	// slicesInOrder: the slices of a pod are taken one after the other, although
	// in another order more of them lie on one NUMA node each, on fewer, or in one
	// cache each, or leave a pod shared pool that does.
	slicesInOrder
	// budgetFirst: the CPUs of a budget are chosen without regard to the slices,
	// although more of these lie on one NUMA node each out of others on the same
	// nodes.
	budgetFirst
	// splitInit: the slice of an init container lies on several NUMA nodes
	// although fewer have what it needs.
	splitInit
	// shrinksMask: distribute-cpus-across-numa uses fewer nodes than the affinity
	// has (139430).
	shrinksMask
	// aliases: distribute-cpus-across-numa keeps combinations of nodes in memory
	// that it goes on writing to, and uses others than it has weighed.
	aliases

	endOfFaults
)

var faultNames = []struct{ name, what string }{
	{"averages", "cores and sockets are compared with the average; CPUs that are not free are given out (140495, 124066)"},
	{"never returns", "distribute-cpus-across-numa waits for whole cores while there are only half ones (140730)"},
	{"reserved counted", "reserved CPUs count for the narrowest NUMA affinity (132187)"},
	{"half cores", "full-pcpus-only counts threads and not whole cores"},
	{"SMT without reuse", "full-pcpus-only does not count what ended init containers have"},
	{"init pins", "ended init containers keep their pod from other NUMA nodes (94220, 123816)"},
	{"init alone", "init containers are placed without the phases after them, and not reused first (94220, 112228)"},
	{"pool emptied", "strict-cpu-reservation lets the node shared pool become empty (141196)"},
	{"split slices", "full-pcpus-only lets slices of a pod split a core"},
	{"init over pool", "the slice of an init container lies on the CPUs of sharing sidecars"},
	{"hints anew", "hints of a pod on record are not those of its record (140989)"},
	{"allocates anew", "a pod with a budget on record is allocated a second time (140989)"},
	{"widens to sockets", "align-by-socket forgets the affinity's NUMA nodes (136572, 122295)"},
	{"socket average", "align-by-socket counts sockets by averages, with reserved CPUs (132187)"},
	{"spreads by ID", "distribute-cpus-across-cores depends on how CPUs are numbered (140688)"},
	{"partial cache", "prefer-align-cpus-by-uncorecache leaves a cache that has room (137315)"},
	{"breaks cores", "a core of a hybrid machine is broken although whole ones add up"},
	{"slices in order", "a slice is split over NUMA nodes or caches, or the pool over nodes, although another order avoids it"},
	{"budget first", "the CPUs of a budget are chosen so that a slice or the pool must be split over NUMA nodes"},
	{"split init", "the slice of an init container is split over NUMA nodes without need"},
	{"shrinks mask", "distribute-cpus-across-numa uses fewer nodes than the affinity has (139430)"},
	{"aliases", "distribute-cpus-across-numa uses other nodes than it has weighed, out of five and more"},
}

func (f fault) has(other fault) bool { return f&other != 0 }

// String names the faults.
func (f fault) String() string {
	var names []string
	for i, each := range faultNames {
		if f.has(1 << i) {
			names = append(names, each.name)
		}
	}
	return strings.Join(names, " + ")
}

// sets lists the sets of faults out of those that matter, the smallest first.
func (f fault) sets() []fault {
	var sets []fault
	for set := f; set != 0; set = (set - 1) & f {
		sets = append(sets, set)
	}
	slices.SortFunc(sets, func(a, b fault) int {
		return cmp.Or(bits.OnesCount32(uint32(a))-bits.OnesCount32(uint32(b)), cmp.Compare(a, b))
	})
	return sets
}

// what says what a single fault is.
func (f fault) what() string { return faultNames[bits.TrailingZeros32(uint32(f))].what }

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math/bits"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
)

// checkTotals checks that what is free is what there is without what is held, and
// that nobody holds what another one does. It goes by what the files say of all
// pods, those included that are gone.
func (w *world) checkTotals() error {
	n := w.node()
	if w.behind {
		return nil
	}
	if staticCPU(n.Settings) {
		online, free := n.CPU.GetAllCPUs(), n.CPU.GetAllCPUs()
		for uid, h := range w.files.cpus {
			if !w.known(uid) {
				return wrong("leak", "CPUs of a pod that is not there: %s %s", uid, h)
			}
			all := h.all()
			if !all.IsSubsetOf(online) {
				return wrong("offline", "%s has %s, online are %s", uid, h, online)
			}
			if !all.IsSubsetOf(free) {
				return wrong("twice", "CPUs %s of %s are another pod's, too: %v", all.Difference(free), uid, w.files.cpus)
			}
			free = free.Difference(all)
		}
		if n.CPUOptions[cpumanager.StrictCPUReservationOption] == "true" {
			if left := free.Difference(n.Reserved()); !left.IsEmpty() {
				free = left
			}
		}
		if free.IsEmpty() {
			free = n.Reserved() // it has to be something
		}
		if shared := w.files.shared; !alike(shared, free) {
			return wrong("shared", "the node shared pool is %s, not %s: %v", shared, free, w.files.cpus)
		}
		if size := n.CPU.GetAllocatableCPUs().Size(); size != online.Size()-n.Reserved().Size() {
			return wrong("shared", "%d CPUs are allocatable", size)
		}
	}
	for uid, h := range w.files.memory {
		if !w.known(uid) {
			return wrong("leak", "memory of a pod that is not there: %s %s", uid, h)
		}
	}
	if staticMemory(n.Settings) {
		return w.checkMemory()
	}
	return nil
}

func (w *world) known(uid string) bool {
	for _, pod := range w.node().Active() {
		if string(pod.UID) == uid {
			return true
		}
	}
	for _, other := range w.gone {
		if other == uid {
			return true
		}
	}
	return false
}

// amount is one kind of memory on a set of NUMA nodes, as bits.
type amount struct {
	resource v1.ResourceName
	nodes    uint64
}

func (w *world) checkMemory() error {
	blocks, held := map[int]int{}, map[amount]uint64{}
	total := map[v1.ResourceName]uint64{}
	for _, h := range w.files.memory {
		for _, b := range h.charges() {
			a := amount{resource: b.Type}
			for _, id := range b.NUMAAffinity {
				a.nodes |= 1 << id
				blocks[id]++
			}
			held[a] += b.Size
			total[b.Type] += b.Size
		}
	}
	machine := w.node().Memory.State().GetMachineState()
	allocatable := map[amount]uint64{}
	for id, node := range machine {
		if node.NumberOfAssignments != blocks[id] {
			return wrong("memory", "NUMA node %d has %d assignments, pods have %d", id, node.NumberOfAssignments, blocks[id])
		}
		for name, table := range node.MemoryMap {
			if table.Reserved+table.Free != table.Allocatable || table.Allocatable+table.SystemReserved > table.TotalMemSize {
				return wrong("memory", "NUMA node %d, %s: %+v does not add up", id, name, *table)
			}
			allocatable[amount{name, 1 << id}] = table.Allocatable
			total[name] -= table.Reserved // of all nodes, it is what pods have
		}
	}
	for name, rest := range total {
		if rest != 0 {
			return wrong("memory", "the NUMA nodes count %d bytes of %s fewer than pods have", int64(rest), name)
		}
	}
	// No set of nodes is promised more than it has.
	for a := range held {
		var have, promised uint64
		for rest := a.nodes; rest != 0; rest &= rest - 1 {
			have += allocatable[amount{a.resource, 1 << bits.TrailingZeros64(rest)}]
		}
		for b, size := range held {
			if b.resource == a.resource && b.nodes&^a.nodes == 0 {
				promised += size
			}
		}
		if promised > have {
			return wrong("memory", "NUMA nodes %b have %d bytes of %s, promised are %d", a.nodes, have, a.resource, promised)
		}
	}
	return nil
}

// nodesOf is the NUMA nodes of CPUs, as bits.
func (w *world) nodesOf(cpus cpuset.CPUSet) uint64 {
	var nodes uint64
	details := w.node().ReadTopology().CPUDetails
	for _, cpu := range cpus.UnsortedList() {
		nodes |= 1 << details[cpu].NUMANodeID
	}
	return nodes
}

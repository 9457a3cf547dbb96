// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"errors"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// carveMixed plans a pod with a budget on a machine with cores of several sizes
// when only whole cores are given out and the slices do not come out even in the
// CPUs that were chosen for the budget. It chooses the CPUs of each slice and of
// the pod shared pool by themselves, large cores before small ones, so that small
// ones are left for what needs them. It answers false where that fails, too, or
// where it cannot be the reason.
func (n *Node) carveMixed(err error, free Set, pod podplan.Pod, shares []podplan.Share, affinity numa.Hint) (Record, bool) {
	var smt *SMTAlignmentError
	if !errors.As(err, &smt) || len(n.topology.coreSizes) < 2 {
		return Record{}, false
	}
	if !affinity.Any {
		// The hint was for the budget, which these nodes have; the slices are no
		// reason to leave them.
		free = free.Intersection(n.topology.OnNodes(affinity.Nodes))
	}
	return n.carveFrom(free, pod.BudgetCPUs(), shares)
}

func (n *Node) carveFrom(pool Set, budget int, shares []podplan.Share) (Record, bool) {
	p := picker{t: n.topology, free: pool}
	record := Record{Containers: map[string]Set{}}
	rest := budget
	for _, share := range shares {
		if share.Slice == 0 || !share.Container.Kind.LongRunning() {
			continue
		}
		cpus, ok := p.takeLargeCores(int(share.Slice))
		if !ok {
			return Record{}, false
		}
		record.Containers[share.Container.Name] = cpus
		rest -= cpus.Size()
	}
	if _, ok := p.takeLargeCores(rest); !ok {
		return Record{}, false
	}
	record.Pod = p.taken
	record, err := n.carve(record, shares)
	return record, err == nil
}

// takeLargeCores takes whole cores that have n CPUs together, large ones first.
func (p *picker) takeLargeCores(n int) (Set, bool) {
	if !p.addsUp(p.free, n) {
		return Set{}, false
	}
	before := p.taken
	p.need = n
	for _, size := range p.t.coreSizes {
		for _, core := range p.coresInOrder() {
			if core.cpus.Size() == size && size <= p.need && core.cpus.IsSubsetOf(p.free) &&
				p.addsUp(p.free.Difference(core.cpus), p.need-size) {
				p.take(core.cpus)
			}
		}
	}
	return p.taken.Difference(before), p.need == 0
}

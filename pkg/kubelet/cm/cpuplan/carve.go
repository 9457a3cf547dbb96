// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"maps"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// carve gives each container that the record lacks its part of the pod's CPUs.
// Slices of long-running containers come first, and what they leave is the pod
// shared pool. Standard init containers then get theirs out of what the sidecars
// declared before them have left, on the CPUs of slices that start later. Where
// these are too few, an exclusive one has to run beside the sidecars in the pool:
// both sizes follow from the pod alone, and no other arrangement would help.
// What is recorded stays as it is.
func (n *Node) carve(record Record, shares []podplan.Share) (Record, error) {
	next := Record{Pod: record.Pod, Containers: maps.Clone(record.Containers)}
	if next.Containers == nil {
		next.Containers = map[string]Set{}
	}
	shared := recordedPool(record, shares)
	pool := record.Pod.Difference(shared)
	var wanted []podplan.Share
	for _, share := range longRunning(shares) {
		if cpus, held := next.Containers[share.Container.Name]; held {
			pool = pool.Difference(cpus)
		} else {
			wanted = append(wanted, share)
		}
	}
	taken, err := n.slices(pool, wanted)
	if err != nil {
		return Record{}, err
	}
	for i, share := range wanted {
		next.Containers[share.Container.Name] = taken[i]
	}
	pool = pool.Difference(union(taken))
	if !shared.IsEmpty() {
		pool = shared
	}
	// What the sidecars declared so far have left, and where those that share run.
	left, busy := record.Pod, Set{}
	for _, share := range shares {
		c := share.Container
		cpus, held := next.Containers[c.Name]
		if c.Kind == podplan.Sidecar {
			if share.Slice > 0 {
				left = left.Difference(cpus)
			} else {
				busy = pool
			}
		}
		switch {
		case held:
		case c.Kind == podplan.StandardInit && share.Slice > 0:
			cpus, err := n.initSlice(c.Name, left, busy, int(share.Slice))
			if err != nil {
				return Record{}, err
			}
			next.Containers[c.Name] = cpus
		case c.Kind == podplan.StandardInit:
			next.Containers[c.Name] = left
		case pool.IsEmpty():
			return Record{}, fmt.Errorf("container %q shares the pod's CPUs, but exclusive slices hold all of %q", c.Name, record.Pod)
		default:
			next.Containers[c.Name] = pool
		}
	}
	return next, nil
}

// recordedPool is the pod shared pool of a record, as its containers have it.
func recordedPool(record Record, shares []podplan.Share) (pool Set) {
	for _, share := range shares {
		if share.Slice == 0 && share.Container.Kind.LongRunning() {
			pool = pool.Union(record.Containers[share.Container.Name])
		}
	}
	return pool
}

func (n *Node) slicesInOrder(pool Set, wanted []podplan.Share) ([]Set, error) {
	taken := make([]Set, len(wanted))
	for i, share := range wanted {
		cpus, err := n.slice(share.Container.Name, pool, Set{}, int(share.Slice))
		if err != nil {
			return nil, err
		}
		taken[i] = cpus
		pool = pool.Difference(cpus)
	}
	return taken, nil
}

// slice takes an exclusive slice out of what is left of the pod's CPUs, first
// out of what is better to take.
func (n *Node) slice(container string, left, better Set, count int) (Set, error) {
	if n.options.FullPCPUsOnly {
		if err := n.checkWholeCores(container, n.topology.WholeCores(left), count); err != nil {
			return Set{}, err
		}
	}
	cpus, err := n.allocate(left, better, count, numa.Hint{Any: true})
	if err != nil {
		return Set{}, fmt.Errorf("%w (container %q; the pod has CPUs %q left)", err, container, left)
	}
	return cpus, nil
}

// ReasonSMTAlignment is the reason of pods that are refused with an
// SMTAlignmentError.
const ReasonSMTAlignment = "SMTAlignmentError"

// SMTAlignmentError refuses a request that whole physical cores cannot meet.
type SMTAlignmentError struct {
	// Container is empty when the pod's total is meant.
	Container string
	// Requested and Available are numbers of CPUs; Available counts those on
	// cores that are free with all their threads.
	Requested, Available int
	// ThreadsPerCore is the most that a core of the machine has.
	ThreadsPerCore int
	// NotEnough is set when there are too few whole cores, and unset when no
	// number of whole cores has as many CPUs as requested.
	NotEnough bool
}

// Type is the reason in the pod's status, which is the kubelet's.
func (e *SMTAlignmentError) Type() string { return ReasonSMTAlignment }

// Error starts with the sentence that the kubelet has for either case.
func (e *SMTAlignmentError) Error() string {
	var text string
	if e.NotEnough {
		text = fmt.Sprintf("SMT Alignment Error: not enough free physical CPUs: available physical CPUs = %d, requested CPUs = %d, CPUs per core = %d",
			e.Available, e.Requested, e.ThreadsPerCore)
	} else {
		text = fmt.Sprintf("SMT Alignment Error: requested %d cpus not multiple cpus per core = %d", e.Requested, e.ThreadsPerCore)
	}
	if e.Container != "" {
		text += fmt.Sprintf(" (container %q)", e.Container)
	}
	return text
}

// checkWholeCores reports whether the whole cores among the given CPUs can add
// up to count.
func (n *Node) checkWholeCores(container string, whole Set, count int) error {
	t := n.topology
	if t.addUp(t.countWholeCores(whole), count) {
		return nil
	}
	return &SMTAlignmentError{
		Container: container, Requested: count, Available: whole.Size(),
		ThreadsPerCore: t.ThreadsPerCore(),
		NotEnough:      t.anyCoresAddUp(count),
	}
}

// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// carve gives each container that the record lacks its part of the pod's CPUs:
// slices in the order of the shares, sidecars for good, standard init
// containers out of what the sidecars before them have left, and what is left
// in the end to all others. What is recorded stays as it is.
func (n *Node) carve(record Record, shares []podplan.Share) (Record, error) {
	next := Record{Pod: record.Pod, Containers: map[string]Set{}}
	var sidecars Set
	// Slices that a record holds already, of containers that run beside those
	// still to be carved.
	var held Set
	for _, share := range shares {
		if cpus, ok := record.Containers[share.Container.Name]; ok {
			next.Containers[share.Container.Name] = cpus
			if share.Slice > 0 && share.Container.Kind.LongRunning() {
				held = held.Union(cpus)
			}
		}
	}
	slices := held
	for _, share := range shares {
		c := share.Container
		if cpus, ok := next.Containers[c.Name]; ok {
			if c.Kind == podplan.Sidecar && share.Slice > 0 {
				sidecars = sidecars.Union(cpus)
			}
			continue
		}
		switch {
		case c.Kind == podplan.StandardInit && share.Slice == 0:
			next.Containers[c.Name] = record.Pod.Difference(sidecars)
		case share.Slice > 0:
			taken := sidecars
			if c.Kind.LongRunning() {
				taken = slices
			}
			cpus, err := n.slice(c.Name, record.Pod.Difference(taken), int(share.Slice))
			if err != nil {
				return Record{}, err
			}
			next.Containers[c.Name] = cpus
			if c.Kind.LongRunning() {
				slices = slices.Union(cpus)
			}
			if c.Kind == podplan.Sidecar {
				sidecars = sidecars.Union(cpus)
			}
		}
	}
	pool := record.Pod.Difference(slices)
	for _, share := range shares {
		if _, ok := next.Containers[share.Container.Name]; ok {
			continue
		}
		if pool.IsEmpty() {
			return Record{}, fmt.Errorf("container %q shares the pod's CPUs, but exclusive slices hold all of %q", share.Container.Name, record.Pod)
		}
		next.Containers[share.Container.Name] = pool
	}
	return next, nil
}

// slice takes an exclusive slice out of what is left of the pod's CPUs.
func (n *Node) slice(container string, left Set, count int) (Set, error) {
	if n.options.FullPCPUsOnly {
		if err := n.checkWholeCores(container, n.topology.WholeCores(left), count); err != nil {
			return Set{}, err
		}
	}
	cpus, err := n.choose(left, count)
	if err != nil {
		return Set{}, fmt.Errorf("%w (container %q; the pod has CPUs %q left)", err, container, left)
	}
	return cpus, nil
}

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
	p := picker{t: n.topology}
	if p.addsUp(whole, count) {
		return nil
	}
	return &SMTAlignmentError{
		Container: container, Requested: count, Available: whole.Size(),
		ThreadsPerCore: n.topology.ThreadsPerCore(),
		NotEnough:      p.addsUp(n.topology.All(), count),
	}
}

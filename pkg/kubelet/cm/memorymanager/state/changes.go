// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// logChanges tells what is different on the machine since the file was written:
// its memory, which can change by some pages from boot to boot, hugepages,
// nodes, and what is reserved. The machine of today counts.
func logChanges(logger klog.Logger, before, now NUMANodeMap) {
	for _, change := range changes(before, now) {
		logger.Info("The machine has changed since the memory manager's state was written; what pods have is kept", "change", change)
	}
}

// changes lists the differences in words, node by node.
func changes(before, now NUMANodeMap) []string {
	var list []string
	if len(before) == 0 { // the policy None, or a file of the first start
		return nil
	}
	ids := maps.Clone(before)
	maps.Copy(ids, now)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		old, was := before[id]
		current, is := now[id]
		switch {
		case !was:
			list = append(list, fmt.Sprintf("NUMA node %d is new", id))
		case !is:
			list = append(list, fmt.Sprintf("NUMA node %d is gone", id))
		case old != nil:
			list = append(list, tableChanges(id, old.MemoryMap, current.MemoryMap)...)
		}
	}
	return list
}

func tableChanges(id int, before, now map[v1.ResourceName]*MemoryTable) []string {
	var list []string
	names := maps.Clone(before)
	if names == nil {
		names = map[v1.ResourceName]*MemoryTable{}
	}
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, current := &MemoryTable{}, &MemoryTable{}
		if t := before[name]; t != nil {
			old = t
		}
		if t := now[name]; t != nil {
			current = t
		}
		for _, field := range []struct {
			what    string
			was, is uint64
		}{
			{"total", old.TotalMemSize, current.TotalMemSize},
			{"reserved for the system", old.SystemReserved, current.SystemReserved},
			{"allocatable", old.Allocatable, current.Allocatable},
		} {
			if field.was != field.is {
				list = append(list, fmt.Sprintf("NUMA node %d, %s, %s: was %s, is %s", id, name, field.what, numa.Bytes(field.was), numa.Bytes(field.is)))
			}
		}
	}
	return list
}

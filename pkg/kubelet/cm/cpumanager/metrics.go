// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"strconv"

	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// setGauges derives every gauge from what is committed, for all NUMA nodes.
func (m *manager) setGauges() {
	assigned := m.committed.Assigned()
	metrics.CPUManagerSharedPoolSizeMilliCores.Set(float64(m.node.Free(m.committed).Size() * 1000))
	metrics.CPUManagerExclusiveCPUsAllocationCount.Set(float64(assigned.Size()))
	topology := m.node.Topology()
	for node := range topology.Nodes().All() {
		count := topology.OnNodes(numa.SetOf(node)).Intersection(assigned).Size()
		metrics.CPUManagerAllocationPerNUMA.WithLabelValues(strconv.Itoa(node)).Set(float64(count))
	}
	// Counters of alignment show from the start, at 0.
	for _, boundary := range []string{metrics.AlignedPhysicalCPU, metrics.AlignedUncoreCache} {
		metrics.ContainerAlignedComputeResources.WithLabelValues(metrics.AlignScopeContainer, boundary).Add(0)
	}
	metrics.ContainerAlignedComputeResourcesFailure.WithLabelValues(metrics.AlignScopeContainer, metrics.AlignedPhysicalCPU).Add(0)
}

// countAllocated counts what the pod holds now and did not hold before: by
// container, as the kubelet does, the ones that share what the pod was given as a
// whole included. What it held is not counted again, be it that a container of a
// recorded pod is added to it.
func (m *manager) countAllocated(asked podRequest, before, after cpuplan.Record) {
	whole := !after.Pod.IsEmpty()
	if whole && before.Pod.IsEmpty() {
		m.countOneCache(after.Pod)
	}
	for _, c := range asked.plan.Containers {
		cpus, holds := after.Containers[c.Name]
		if _, held := before.Containers[c.Name]; held || !holds {
			continue
		}
		source, assignment := metrics.ResourceManagerPod, metrics.ResourceManagerSharedPod
		switch {
		case !whole:
			source, assignment = metrics.ResourceManagerNode, metrics.ResourceManagerExclusiveNode
			m.countOneCache(cpus)
			m.countWholeCores()
		case asked.plan.ExclusiveCPUs(c) > 0:
			assignment = metrics.ResourceManagerExclusivePod
		}
		if asked.whole && asked.plan.ExclusiveCPUs(c) > 0 {
			metrics.CPUManagerPinningRequestsTotal.Inc() // otherwise Allocate has counted it
		}
		metrics.ResourceManagerAllocationsTotal.WithLabelValues(metrics.ResourceManagerCPU, source).Inc()
		metrics.ResourceManagerContainerAssignments.WithLabelValues(metrics.ResourceManagerCPU, assignment).Inc()
	}
}

// countFailure counts an allocation that was refused, or could not be recorded,
// for a pod that holds before.
func (m *manager) countFailure(asked podRequest, before cpuplan.Record) {
	source := metrics.ResourceManagerNode
	if !before.Pod.IsEmpty() || asked.whole && len(before.Containers) == 0 {
		source = metrics.ResourceManagerPod
	}
	metrics.CPUManagerPinningErrorsTotal.Inc()
	metrics.ResourceManagerAllocationErrorsTotal.WithLabelValues(metrics.ResourceManagerCPU, source).Inc()
	if m.fullPCPUsOnly && source == metrics.ResourceManagerNode {
		metrics.ContainerAlignedComputeResourcesFailure.WithLabelValues(metrics.AlignScopeContainer, metrics.AlignedPhysicalCPU).Inc()
	}
}

// countOneCache counts CPUs that share a last-level cache.
func (m *manager) countOneCache(cpus cpuplan.Set) {
	if m.node.Topology().InOneCache(cpus) {
		metrics.ContainerAlignedComputeResources.WithLabelValues(metrics.AlignScopeContainer, metrics.AlignedUncoreCache).Inc()
	}
}

// countWholeCores counts a container that has whole cores, be it from before.
func (m *manager) countWholeCores() {
	if m.fullPCPUsOnly {
		metrics.ContainerAlignedComputeResources.WithLabelValues(metrics.AlignScopeContainer, metrics.AlignedPhysicalCPU).Inc()
	}
}

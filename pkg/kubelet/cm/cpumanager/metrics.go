// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"strconv"

	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
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

// countCommitFailure counts an admission whose CPUs could not be recorded.
func countCommitFailure() { metrics.CPUManagerPinningErrorsTotal.Inc() }

func (m *manager) countCacheAlignment(cpus cpuplan.Set) {
	if m.node.Topology().InOneCache(cpus) {
		metrics.ContainerAlignedComputeResources.WithLabelValues(metrics.AlignScopeContainer, metrics.AlignedUncoreCache).Inc()
	}
}

// containerCounts counts the allocation of one container that is to have CPUs
// of its own.
type containerCounts struct {
	m         *manager
	plan      podplan.Pod
	container podplan.Container
}

func (c containerCounts) requested() { metrics.CPUManagerPinningRequestsTotal.Inc() }

// kept counts a container that has its CPUs already.
func (c containerCounts) kept() {
	if c.m.fullPCPUsOnly {
		metrics.ContainerAlignedComputeResources.WithLabelValues(metrics.AlignScopeContainer, metrics.AlignedPhysicalCPU).Inc()
	}
}

func (c containerCounts) allocated(record cpuplan.Record) {
	c.kept()
	c.m.countCacheAlignment(record.Containers[c.container.Name])
	metrics.ResourceManagerAllocationsTotal.WithLabelValues(metrics.ResourceManagerCPU, metrics.ResourceManagerNode).Inc()
	metrics.ResourceManagerContainerAssignments.WithLabelValues(metrics.ResourceManagerCPU, metrics.ResourceManagerExclusiveNode).Inc()
}

func (c containerCounts) failed() {
	metrics.CPUManagerPinningErrorsTotal.Inc()
	metrics.ResourceManagerAllocationErrorsTotal.WithLabelValues(metrics.ResourceManagerCPU, metrics.ResourceManagerNode).Inc()
	if c.m.fullPCPUsOnly {
		metrics.ContainerAlignedComputeResourcesFailure.WithLabelValues(metrics.AlignScopeContainer, metrics.AlignedPhysicalCPU).Inc()
	}
}

// podCounts counts the allocation of a pod's budget.
type podCounts struct {
	m    *manager
	plan podplan.Pod
}

func (c podCounts) allocated(record cpuplan.Record) {
	c.m.countCacheAlignment(record.Pod)
	for _, container := range c.plan.Containers {
		assignment := metrics.ResourceManagerSharedPod
		if c.plan.ExclusiveCPUs(container) > 0 {
			assignment = metrics.ResourceManagerExclusivePod
			metrics.CPUManagerPinningRequestsTotal.Inc()
		}
		metrics.ResourceManagerContainerAssignments.WithLabelValues(metrics.ResourceManagerCPU, assignment).Inc()
		metrics.ResourceManagerAllocationsTotal.WithLabelValues(metrics.ResourceManagerCPU, metrics.ResourceManagerPod).Inc()
	}
}

func (c podCounts) failed() {
	metrics.CPUManagerPinningErrorsTotal.Inc()
	metrics.ResourceManagerAllocationErrorsTotal.WithLabelValues(metrics.ResourceManagerCPU, metrics.ResourceManagerPod).Inc()
}

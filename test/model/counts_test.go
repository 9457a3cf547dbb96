// SPDX-License-Identifier: Apache-2.0

package model

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
)

// counts are the counters that count what pods and containers are given.
type counts [6]float64

// counted are the counters, in the order of counts: allocations of CPUs, then of
// memory, to a pod and to a container each, and what failed of either.
var counted = []func() metrics.CounterMetric{
	vector(func() *metrics.CounterVec { return kubeletmetrics.ResourceManagerAllocationsTotal }, kubeletmetrics.ResourceManagerCPU, kubeletmetrics.ResourceManagerPod),
	vector(func() *metrics.CounterVec { return kubeletmetrics.ResourceManagerAllocationsTotal }, kubeletmetrics.ResourceManagerCPU, kubeletmetrics.ResourceManagerNode),
	vector(func() *metrics.CounterVec { return kubeletmetrics.ResourceManagerAllocationsTotal }, kubeletmetrics.ResourceManagerMemory, kubeletmetrics.ResourceManagerPod),
	vector(func() *metrics.CounterVec { return kubeletmetrics.ResourceManagerAllocationsTotal }, kubeletmetrics.ResourceManagerMemory, kubeletmetrics.ResourceManagerNode),
	func() metrics.CounterMetric { return kubeletmetrics.CPUManagerPinningErrorsTotal },
	func() metrics.CounterMetric { return kubeletmetrics.MemoryManagerPinningErrorsTotal },
}

func vector(v func() *metrics.CounterVec, labels ...string) func() metrics.CounterMetric {
	return sync.OnceValue(func() metrics.CounterMetric { return v().WithLabelValues(labels...) })
}

func readCounts() (c counts, err error) {
	for i, counter := range counted {
		if c[i], err = testutil.GetCounterMetricValue(counter()); err != nil {
			return c, wrong("counter", "%v", err)
		}
	}
	return c, nil
}

// cpus and memory are how often each was given, failed how often something could
// not be.
func (c counts) cpus() float64   { return c[0] + c[1] }
func (c counts) memory() float64 { return c[2] + c[3] }
func (c counts) failed() float64 { return c[4] + c[5] }

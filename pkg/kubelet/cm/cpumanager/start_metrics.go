// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
)

// Metrics that the kubelet does not have.
var (
	unsettledStarts = metrics.NewCounter(&metrics.CounterOpts{
		Subsystem:      kubeletmetrics.KubeletSubsystem,
		Name:           "cpu_manager_unsettled_container_starts_total",
		Help:           "The number of containers that were started although others could still run on their CPUs, or they themselves on others, since these could not be moved in time.",
		StabilityLevel: metrics.ALPHA,
	})
	startWaits = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem:      kubeletmetrics.KubeletSubsystem,
		Name:           "cpu_manager_container_start_wait_seconds",
		Help:           "How long the start of a container was held up until its CPUs were its own.",
		Buckets:        []float64{0.001, 0.005, 0.02, 0.1, 0.5, 1, 2},
		StabilityLevel: metrics.ALPHA,
	})
)

// registerMetrics lets the kubelet show the metrics above beside its own.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(unsettledStarts, startWaits)
})

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// admissionSeconds is a metric that the kubelet does not have. Its own histogram
// of admissions begins at 50 microseconds, where most of ours end.
var admissionSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
	Subsystem: kubeletmetrics.KubeletSubsystem,
	Name:      "topology_manager_admission_duration_seconds",
	Help:      "Duration in seconds of serving a pod admission request, with buckets from 1 microsecond on.",
	Buckets: []float64{
		1e-6, 2e-6, 5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 200e-6, 500e-6,
		1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.2, 0.5, 1, 2, 5,
	},
	StabilityLevel: metrics.ALPHA,
})

// registerMetrics lets the kubelet show the metrics of this file beside its own.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(admissionSeconds, ineligible, stateErrors)
})

// observeAdmission counts how long an admission took, in the kubelet's histogram
// and in ours.
func observeAdmission(took time.Duration) {
	kubeletmetrics.TopologyManagerAdmissionDuration.Observe(took.Seconds() * 1000)
	admissionSeconds.Observe(took.Seconds())
}

// ineligible is a metric that the kubelet does not have. The CPU and the memory
// manager share it, as they share the kubelet's own of that prefix.
var ineligible = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem:      kubeletmetrics.KubeletSubsystem,
	Name:           "resource_manager_ineligible_containers_total",
	Help:           "Number of containers of pods with pod-level resources that were admitted without exclusive resources although they ask for them as one does who is to get some, by the reason why.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resource_name", "reason"})

// CountIneligible counts a container that gets nothing exclusive of the resource.
func CountIneligible(resource string, reason podplan.Ineligibility) {
	ineligible.WithLabelValues(resource, string(reason)).Inc()
}

// stateErrors is a metric that the kubelet does not have.
var stateErrors = metrics.NewCounterVec(&metrics.CounterOpts{
	Subsystem:      kubeletmetrics.KubeletSubsystem,
	Name:           "resource_manager_state_errors_total",
	Help:           "Number of state files that were damaged when the kubelet started, and of pods that ran then and could not be given what they are to have.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resource_name", "problem"})

// StateProblem is a kind of loss of what was recorded.
type StateProblem string

const (
	// DamagedFile is a state file that could not be read as it was.
	DamagedFile StateProblem = "damaged_file"
	// RunningPodWithout is a pod that ran when the kubelet started and goes on
	// without resources of its own.
	RunningPodWithout StateProblem = "running_pod_without"
)

// CountStateProblem counts a problem with what is recorded of the resource.
func CountStateProblem(resource string, problem StateProblem) {
	stateErrors.WithLabelValues(resource, string(problem)).Inc()
}

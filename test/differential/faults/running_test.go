// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
	"k8s.io/utils/cpuset"
)

// metric is the value of a metric whose labels have these values, 0 if it has no
// sample.
func metric(name string, labels ...string) float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(err)
	for _, family := range families {
		if family.GetName() != "kubelet_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			if hasLabels(m, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func hasLabels(m *dto.Metric, values []string) bool {
	for _, value := range values {
		found := false
		for _, l := range m.GetLabel() {
			found = found || l.GetValue() == value
		}
		if !found {
			return false
		}
	}
	return true
}

func (n *node) wantMetric(want float64, name string, labels ...string) {
	got := metric(name, labels...)
	n.want(got == want, "%s%v is %v and not %v", name, labels, got, want)
}

// eventually waits for a condition, so many seconds at most.
func (n *node) eventually(seconds int, condition func() bool, format string, args ...any) {
	for end := time.Now().Add(time.Duration(seconds) * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		n.want(time.Now().Before(end), format, args...)
	}
}

var runningFaults = []fault{
	{
		name: "shared-containers-stay-on-exclusive-cpus",
		what: "containers of the node shared pool run on CPUs that a new pod has of its own, until the reconcile period has passed",
		ours: "moves them at once",
		play: func(n *node) {
			n.begin(static(8, false))
			shared := n.admit("shared; app s")
			n.settles()
			pod := n.admit(cpus("p", 4))
			own := n.exclusive(pod, "a")
			where, off := n.runsOn(containerID(shared, &shared.Spec.Containers[0]), cpuset.New(0, 1, 2, 3, 4, 5, 6, 7).Difference(own), 3*time.Second)
			n.want(off, "3 s after a pod got CPUs %s, another's container runs on %s", own, where)
		},
	},
	{
		name: "container-starts-on-cpus-of-before",
		what: "a container that was created before CPUs were given to another starts on them, and stays for a reconcile period",
		ours: "it is corrected before it starts",
		play: func(n *node) {
			n.begin(static(8, false))
			shared, _ := n.try("shared; app s")
			c := &shared.Spec.Containers[0]
			n.runtime.create(containerID(shared, c), n.affinity(shared, "s"))
			own := n.has("p", 4)
			n.addContainer(shared, c, containerID(shared, c))
			n.start("shared")
			where, off := n.runsOn(containerID(shared, c), cpuset.New(0, 1, 2, 3, 4, 5, 6, 7).Difference(own), 3*time.Second)
			n.want(off, "3 s after a pod got CPUs %s, another's container runs on %s", own, where)
		},
	},
	{
		name: "deleted-by-force-runs-on-cpus-of-others",
		what: "a pod that was deleted by force runs for its grace period on CPUs that another one gets (104824)",
		ours: "moves its containers off",
		play: func(n *node) {
			n.begin(static(8, false))
			old := n.admit(cpus("old", 4))
			n.settles()
			n.forget("old")
			n.probe()
			own := n.has("p", 4)
			where, off := n.runsOn(containerID(old, &old.Spec.Containers[0]), cpuset.New(0, 1, 2, 3, 4, 5, 6, 7).Difference(own), 3*time.Second)
			n.want(off, "3 s after a pod got CPUs %s, the deleted one's container runs on %s", own, where)
		},
	},
	{
		name: "gauge-counts-init-containers-twice",
		what: "the gauge of exclusive CPUs counts CPUs again that an init container had, and keeps the difference for ever (141262)",
		ours: "gauges are derived from what is on record",
		play: func(n *node) {
			metrics.Register()
			n.begin(static(8, false))
			n.admit("p; init i cpu=2 memory=64Mi; app a cpu=2 memory=64Mi")
			n.wantMetric(2, "cpu_manager_exclusive_cpu_allocation_count")
		},
	},
	{
		name: "gauge-of-numa-node-never-falls-to-0",
		what: "the gauge of a NUMA node keeps its last value when its last CPU is released (141262)",
		ours: "falls to 0",
		play: func(n *node) {
			metrics.Register()
			n.begin(static(8, false))
			n.end(n.admit(cpus("p", 2)))
			n.probe()
			n.wantMetric(0, "cpu_manager_allocation_per_numa", "0")
		},
	},
	{
		name: "gauge-of-numa-node-misses-budgets",
		what: "the gauge of a NUMA node does not have the CPUs of a pod with a budget",
		ours: "has all of them",
		play: func(n *node) {
			metrics.Register()
			n.begin(onCPUs(8))
			n.admit("p cpu=4 memory=4Gi; app a cpu=2 memory=2Gi")
			n.wantMetric(4, "cpu_manager_allocation_per_numa", "0")
		},
	},
	{
		name: "admission-takes-0-ms",
		what: "the duration of admissions is measured in whole milliseconds",
		ours: "with fractions, and in another histogram in seconds",
		play: func(n *node) {
			metrics.Register()
			n.begin(static(8, false))
			n.admit(cpus("p", 2))
			sum, count := metricSum("topology_manager_admission_duration_ms")
			n.want(count == 0 || sum != float64(int(sum)), "topology_manager_admission_duration_ms has %d admissions, which took a whole number of milliseconds", count)
		},
	},
	{
		name: "refusals-not-counted-without-policy",
		what: "with the topology manager's policy none, pods that are refused are not counted",
		ours: "counted",
		play: func(n *node) {
			metrics.Register()
			n.begin(static(8, false))
			_, result := n.try(cpus("p", 9))
			n.want(!result.Admit, "9 of 8 CPUs are admitted")
			n.wantMetric(1, "topology_manager_admission_errors_total")
		},
	},
	{
		name: "restart-counts-allocations-again",
		what: "allocations of pods that the kubelet admits again at its start are counted as new ones",
		ours: "not counted",
		play: func(n *node) {
			n.begin(onCPUs(12))
			metrics.Register() // with the gate on
			n.admit("p cpu=3 memory=2Gi; app a cpu=2 memory=1Gi; app b cpu=1 memory=1Gi")
			before := metric("resource_manager_allocations_total", "cpu", "pod")
			n.want(before == 2, "an allocation for two containers is counted as %v", before)
			n.mayMove(nil, "p")
			n.wantMetric(before, "resource_manager_allocations_total", "cpu", "pod")
		},
	},
	{
		name: "pinning-counted-for-shared-init-containers",
		what: "the count of memory pinning requests goes up for init containers that share",
		ours: "once for the pod and once for each exclusive container",
		play: func(n *node) {
			metrics.Register()
			n.begin(onCPUs(8))
			before := metric("memory_manager_pinning_requests_total")
			n.admit("p cpu=4 memory=4Gi; init i; init j; app a cpu=2 memory=2Gi; app b")
			got := metric("memory_manager_pinning_requests_total") - before
			n.want(got <= 2, "%v requests are counted for a pod with one exclusive container", got)
		},
	},
}

// metricSum is the sum of a histogram.
func metricSum(name string) (sum float64, count uint64) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	must(err)
	for _, family := range families {
		if family.GetName() == "kubelet_"+name {
			for _, m := range family.GetMetric() {
				sum, count = sum+m.GetHistogram().GetSampleSum(), count+m.GetHistogram().GetSampleCount()
			}
		}
	}
	return sum, count
}

// settles waits until no container has been updated for a second.
func (n *node) settles() {
	for before := -1; n.runtime.updated() != before; time.Sleep(time.Second) {
		before = n.runtime.updated()
	}
}

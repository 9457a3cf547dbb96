// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/test/simnode"
)

// growth is by how much counters of the resource managers grew: their names
// without "kubelet_" and the values of their labels.
type growth map[string]float64

func counters(t *testing.T) growth {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	now := growth{}
	for _, family := range families {
		name := strings.TrimPrefix(family.GetName(), "kubelet_")
		if !strings.HasPrefix(name, "resource_manager_") && !strings.Contains(name, "_manager_pinning_") && !strings.HasPrefix(name, "topology_manager_admission_") {
			continue
		}
		for _, m := range family.GetMetric() {
			key := name
			for _, label := range m.GetLabel() {
				key += " " + label.GetValue()
			}
			if m.GetCounter() != nil {
				now[key] = m.GetCounter().GetValue()
			}
		}
	}
	return now
}

func during(t *testing.T, f func()) growth {
	before := counters(t)
	f()
	grown := growth{}
	for key, value := range counters(t) {
		if value != before[key] {
			grown[key] = value - before[key]
		}
	}
	return grown
}

// TestCountingAlike admits pods on both sides, one after the other on one node,
// and expects every counter to grow alike. Where ours differ on purpose, ours has
// what they do and why says what is wrong with the kubelet's own.
func TestCountingAlike(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourceManagers, true)
	metrics.Register()
	const reference = `db cpu=6 memory=12Gi
		sidecar metrics
		sidecar backup
		app database cpu=4 memory=8Gi`
	const sharedInit = "init containers and sidecars that share are counted as if they asked for memory of their own"
	const mixed = `p cpu=6 memory=12Gi
		init setup
		sidecar proxy cpu=1 memory=1Gi
		init prepare cpu=2 memory=2Gi
		sidecar log
		app a cpu=2 memory=2Gi
		app b cpu=1500m memory=1Gi
		app c`
	for name, c := range map[string]struct {
		policy, scope string
		pods          []string
		// again starts a new kubelet, which admits the pods again.
		again bool
		why   string
		ours  growth
	}{
		// What upstream's node e2e asserts: 2 allocations of the pod, one exclusive
		// and one shared container; in scope container 1 and 1 of the node.
		"node e2e, pod scope":       {policy: "restricted", scope: "pod", pods: []string{"p cpu=3 memory=128Mi\napp a cpu=2 memory=64Mi\napp b"}},
		"node e2e, container scope": {policy: "restricted", scope: "container", pods: []string{"p cpu=3 memory=128Mi\napp a cpu=2 memory=64Mi\napp b"}},
		"node e2e, memory":          {policy: "restricted", scope: "pod", pods: []string{"p cpu=200m memory=128Mi\napp a cpu=100m memory=64Mi\napp b"}},

		"reference pod, container":            {policy: "single-numa-node", scope: "container", pods: []string{reference}},
		"reference pod, no alignment":         {policy: "none", scope: "pod", pods: []string{reference}},
		"all kinds of containers, container":  {policy: "restricted", scope: "container", pods: []string{mixed}},
		"a budget with a fraction":            {policy: "restricted", scope: "pod", pods: []string{"p cpu=3500m memory=4Gi\napp a cpu=2 memory=1Gi\napp b"}},
		"a budget with a fraction, container": {policy: "restricted", scope: "container", pods: []string{"p cpu=3500m memory=4Gi\napp a cpu=2 memory=1Gi\napp b"}},
		"hugepages":                           {policy: "restricted", scope: "container", pods: []string{"p cpu=4 memory=4Gi hugepages-2Mi=64Mi\napp a cpu=2 memory=1Gi hugepages-2Mi=64Mi\napp b"}},
		"pods without budgets":                {policy: "restricted", scope: "pod", pods: []string{"p\ninit i cpu=3 memory=1Gi\napp a cpu=2 memory=1Gi", "q\napp a cpu=500m memory=1Gi", "r\napp a cpu=1"}},
		"an empty pod shared pool":            {policy: "best-effort", scope: "pod", pods: []string{"p cpu=4 memory=4Gi\napp a cpu=4 memory=2Gi\napp b"}},
		"no room":                             {policy: "best-effort", scope: "pod", pods: []string{"p cpu=20 memory=4Gi\napp a"}},
		"no room, container":                  {policy: "best-effort", scope: "container", pods: []string{"p cpu=20 memory=4Gi\napp a cpu=20 memory=1Gi\napp b"}},
		"no acceptable affinity":              {policy: "single-numa-node", scope: "pod", pods: []string{"p cpu=10 memory=4Gi\napp a"}},
		"ordinary containers again":           {policy: "restricted", scope: "container", pods: []string{reference}, again: true},

		"reference pod": {policy: "single-numa-node", scope: "pod", pods: []string{reference},
			why: sharedInit,
			ours: growth{
				"cpu_manager_pinning_requests_total":                                1,
				"memory_manager_pinning_requests_total":                             2,
				"resource_manager_allocations_total cpu pod":                        3,
				"resource_manager_allocations_total memory pod":                     3,
				"resource_manager_container_assignments_total pod_exclusive cpu":    1,
				"resource_manager_container_assignments_total pod_exclusive memory": 1,
				"resource_manager_container_assignments_total pod_shared cpu":       2,
				"resource_manager_container_assignments_total pod_shared memory":    2,
				"topology_manager_admission_requests_total":                         1,
			}},
		"all kinds of containers": {policy: "restricted", scope: "pod", pods: []string{mixed},
			why: sharedInit,
			ours: growth{
				"cpu_manager_pinning_requests_total":                                3,
				"memory_manager_pinning_requests_total":                             5,
				"resource_manager_allocations_total cpu pod":                        7,
				"resource_manager_allocations_total memory pod":                     7,
				"resource_manager_container_assignments_total pod_exclusive cpu":    3,
				"resource_manager_container_assignments_total pod_exclusive memory": 4,
				"resource_manager_container_assignments_total pod_shared cpu":       4,
				"resource_manager_container_assignments_total pod_shared memory":    3,
				"topology_manager_admission_requests_total":                         1,
			}},
		"a pod with a budget again": {policy: "best-effort", scope: "pod", pods: []string{reference}, again: true,
			why:  "140989, 140906: it is allocated and counted again",
			ours: growth{"memory_manager_pinning_requests_total": 1, "topology_manager_admission_requests_total": 1}},
		"refused by the second manager": {policy: "best-effort", scope: "container", pods: []string{"p\napp a cpu=2 memory=70Gi"},
			why: "what the first manager took is given back, and yet counted",
			ours: growth{
				"cpu_manager_pinning_requests_total":                   1,
				"memory_manager_pinning_requests_total":                1,
				"memory_manager_pinning_errors_total":                  1,
				"resource_manager_allocation_errors_total memory node": 1,
				"topology_manager_admission_errors_total":              1,
				"topology_manager_admission_requests_total":            1,
			}},
		"refused in scope none": {policy: "none", scope: "container", pods: []string{"p\napp a cpu=20 memory=1Gi"},
			why: "no errors of admission are counted in this scope",
			ours: growth{
				"cpu_manager_pinning_requests_total":                1,
				"cpu_manager_pinning_errors_total":                  1,
				"resource_manager_allocation_errors_total cpu node": 1,
				"topology_manager_admission_errors_total":           1,
				"topology_manager_admission_requests_total":         1,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*v1.Pod
			for _, text := range c.pods {
				pod, err := simnode.ParsePod(text)
				require.NoError(t, err)
				pods = append(pods, pod)
			}
			us := simnode.New(t)
			us.Info = simnode.Shape{Nodes: 2, Cores: 4, Threads: 2, Memory: resource.MustParse("32Gi"), Hugepages2Mi: 512}.MachineInfo()
			us.TopologyPolicy, us.Scope, us.ReservedCPUs = c.policy, c.scope, reserved
			them := &theirs{t: t, settings: us.Settings, info: us.Info, dir: t.TempDir()}
			run := func(start func(), admit func(*v1.Pod)) growth {
				start()
				all := func() {
					for _, pod := range pods {
						admit(pod)
					}
				}
				if c.again {
					all()
					start()
				}
				return during(t, all)
			}
			theirGrowth := run(them.start, func(pod *v1.Pod) { them.admit(pod) })
			ourGrowth := run(func() { require.NoError(t, us.Start()) }, func(pod *v1.Pod) {
				us.Add(pod)
				if !us.Admit(pod).Admit {
					us.Remove(pod.Name)
				}
			})
			// Ours alone; see docs/metrics.md.
			for key := range ourGrowth {
				if strings.HasPrefix(key, "resource_manager_ineligible_containers_total") {
					delete(ourGrowth, key)
				}
			}
			require.NotEmpty(t, ourGrowth)
			if c.why == "" {
				require.Equal(t, theirGrowth, ourGrowth)
				return
			}
			require.Equal(t, c.ours, ourGrowth)
			require.NotEqual(t, theirGrowth, ourGrowth, "no difference any more: %s", c.why)
		})
	}
}

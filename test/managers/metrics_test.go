// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/metrics"
)

// registerMetrics registers the kubelet's metrics as one does that has the gate
// on. Once registered they stay for the whole process.
func registerMetrics(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourceManagers, true)
	metrics.Register()
}

// counters are the counters of the three managers that have grown since the last
// time they were looked at.
type counters map[string]float64

// since lists them, and begins anew.
func (c *counters) since(t *testing.T) string {
	now := counters{}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		name := strings.TrimPrefix(family.GetName(), "kubelet_")
		if !slices.ContainsFunc([]string{"cpu_manager_", "memory_manager_", "resource_manager_", "topology_manager_admission_", "pod_infeasible_"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetCounter() == nil {
				continue
			}
			key := name
			for _, label := range m.GetLabel() {
				key += " " + label.GetName() + "=" + label.GetValue()
			}
			now[key] = m.GetCounter().GetValue()
		}
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if by := now[key] - (*c)[key]; by != 0 {
			fmt.Fprintf(&b, "%s +%v\n", key, by)
		}
	}
	*c = now
	if b.Len() == 0 {
		return "nothing has grown\n"
	}
	return b.String()
}

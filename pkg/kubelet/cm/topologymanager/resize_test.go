// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// guard objects to resizes that change the budget of CPUs.
type guard struct {
	full
	manager string
	err     error
}

func (g *guard) CheckResize(_ klog.Logger, admitted, resized *v1.Pod) error {
	g.note("check %s", admitted.UID)
	from, to := admitted.Spec.Resources.Limits.Cpu(), resized.Spec.Resources.Limits.Cpu()
	if from.Equal(*to) {
		return g.err
	}
	return &ResizeError{Manager: g.manager, Policy: "static", Changes: []podplan.Change{
		{Resource: "cpu", Recorded: true, From: uint64(from.MilliValue()), To: uint64(to.MilliValue())},
	}}
}

func withCPUs(cpus string) *v1.Pod {
	p := pod("p", true, "app")
	p.Spec.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus), v1.ResourceMemory: resource.MustParse("1Gi")}
	p.Spec.Resources.Requests = p.Spec.Resources.Limits
	return p
}

func counter(t *testing.T, name, label string) float64 {
	families, err := legacyregistry.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if label == "" || m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func TestInfeasibleResizes(t *testing.T) {
	metrics.Register()
	for _, policy := range []string{PolicyNone, PolicyBestEffort, PolicyRestricted, PolicySingleNumaNode} {
		for _, scope := range []string{ContainerTopologyScope, PodTopologyScope} {
			cpu, memory := &guard{manager: "CPU"}, &guard{manager: "Memory"}
			m := newManager(t, policy, scope, cpu, &plain{}, memory)
			require.True(t, admit(m, withCPUs("8"), lifecycle.AddOperation).Admit)
			cpu.calls, memory.calls = nil, nil
			names := []string{"kubelet_topology_manager_admission_requests_total", "kubelet_topology_manager_admission_errors_total",
				"kubelet_topology_manager_admission_duration_ms", "kubelet_topology_manager_admission_duration_seconds"}
			before := make([]float64, len(names))
			for i, name := range names {
				before[i] = counter(t, name, "")
			}
			const detail = "guaranteed_pod_cpu_manager_static_policy"
			infeasible := counter(t, "kubelet_pod_infeasible_resizes_total", detail)

			require.Equal(t, lifecycle.PodAdmitResult{
				Reason: "Infeasible",
				Message: `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static": cpu of the pod budget: 8 on record, 9 asked for; ` +
					`Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "static": cpu of the pod budget: 8 on record, 9 asked for`,
			}, admit(m, withCPUs("9"), lifecycle.ResizeOperation), "%s %s", policy, scope)
			require.Equal(t, []string{"check p"}, cpu.calls, "nothing else is asked of them")
			require.Equal(t, []string{"check p"}, memory.calls)
			require.EqualValues(t, 1, counter(t, "kubelet_pod_infeasible_resizes_total", detail)-infeasible)

			// Any other error is as final: tried again it would be the same.
			cpu.err = errors.New("it cannot be read")
			require.Equal(t, lifecycle.PodAdmitResult{Reason: "Infeasible", Message: "it cannot be read"}, admit(m, withCPUs("8"), lifecycle.ResizeOperation))
			cpu.err = nil
			require.True(t, admit(m, withCPUs("8"), lifecycle.ResizeOperation).Admit)
			for i, name := range names {
				require.Equal(t, before[i], counter(t, name, ""), name)
			}
		}
	}
}

// A resize of a pod is held against it as it was admitted last, not against one
// that was refused; and what is kept of a pod goes with it.
func TestResizesAreHeldAgainstTheAdmittedPod(t *testing.T) {
	g := &guard{manager: "CPU"}
	m := newManager(t, PolicySingleNumaNode, PodTopologyScope, g)
	kept := &m.(manager).Scope.(*scope).admitted
	require.True(t, admit(m, withCPUs("8"), lifecycle.AddOperation).Admit)
	g.hints = map[string][]TopologyHint{"cpu": {at(true, 0, 1)}}
	require.False(t, admit(m, withCPUs("9"), lifecycle.AddOperation).Admit)
	require.False(t, admit(m, withCPUs("9"), lifecycle.ResizeOperation).Admit)
	require.True(t, admit(m, withCPUs("8"), lifecycle.ResizeOperation).Admit, "whatever the hints are")
	require.Equal(t, "8", kept.get("p").Spec.Resources.Limits.Cpu().String())

	g.hints = nil
	require.True(t, admit(m, pod("other", false, "app"), lifecycle.AddOperation).Admit)
	require.Nil(t, kept.get("p"))
	require.True(t, admit(m, withCPUs("9"), lifecycle.ResizeOperation).Admit, "there is nothing to hold it against")
}

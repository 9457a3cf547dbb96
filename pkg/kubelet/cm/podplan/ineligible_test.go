// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func TestIneligible(t *testing.T) {
	whole, fraction := same("cpu", "4", "memory", "8Gi"), same("cpu", "3500m", "memory", "8Gi")
	own := same("cpu", "2", "memory", "1Gi")
	looseMemory := v1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1Gi"), Limits: list("cpu", "2", "memory", "2Gi")}
	looseCPU := v1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1Gi"), Limits: list("cpu", "3", "memory", "1Gi")}
	burstable := Facts{PodLevel: true}
	off := Facts{Guaranteed: true}
	const none = Ineligibility("")
	for _, c := range []struct {
		what        string
		facts       Facts
		budget, own v1.ResourceRequirements
		cpu, byPod  Ineligibility // by container, and as a whole
		memory      Ineligibility
	}{
		{"has its slice", on, whole, own, none, none, none},
		{"a fraction of a budget", on, fraction, own, none, FractionalBudget, none},
		{"a fraction of a CPU", on, whole, same("cpu", "1500m", "memory", "1Gi"), none, none, none},
		{"no CPUs", on, fraction, same("memory", "1Gi"), none, none, none},
		{"no memory", on, whole, same("cpu", "2"), MemoryNotGuaranteed, MemoryNotGuaranteed, none},
		{"memory that may grow", on, fraction, looseMemory, MemoryNotGuaranteed, MemoryNotGuaranteed, none},
		{"CPUs that may grow", on, whole, looseCPU, none, none, none},
		{"not Guaranteed", burstable, whole, own, PodNotGuaranteed, PodNotGuaranteed, PodNotGuaranteed},
		{"not Guaranteed, nor the container", burstable, whole, looseMemory, none, none, none},
		{"gates off", off, fraction, own, FeatureDisabled, FeatureDisabled, FeatureDisabled},
		{"gates off, the container not Guaranteed", off, whole, looseMemory, none, none, none},
		{"gates off, not Guaranteed", Facts{}, whole, own, none, none, none},
		{"no budget", on, v1.ResourceRequirements{}, own, none, none, none},
		{"no budget, not Guaranteed", Facts{}, v1.ResourceRequirements{}, own, none, none, none},
	} {
		p := read(t, c.facts, c.budget, v1.Container{Name: "a", Resources: c.own})
		found := func(reason Ineligibility, ok bool) Ineligibility {
			if !ok {
				return none
			}
			return reason
		}
		require.Equal(t, c.cpu, found(p.IneligibleForCPUs(p.Containers[0], false)), c.what)
		require.Equal(t, c.byPod, found(p.IneligibleForCPUs(p.Containers[0], true)), c.what)
		require.Equal(t, c.memory, found(p.IneligibleForMemory(p.Containers[0])), c.what)
		// Nobody is ineligible who has something, in the way that it is allocated.
		if c.cpu != none {
			require.Zero(t, p.ExclusiveCPUs(p.Containers[0]), c.what)
		}
		if c.memory != none {
			require.Empty(t, p.ExclusiveMemory(p.Containers[0]), c.what)
		}
	}
	for _, reason := range Ineligibilities() {
		require.NotEqual(t, string(reason), reason.Explain(Budget{}))
	}
}

func TestAsks(t *testing.T) {
	p := read(t, on, same("cpu", "3500m", "memory", "8Gi", "hugepages-2Mi", "64Mi"), v1.Container{Name: "a", Resources: same("cpu", "2", "memory", "1Gi", "hugepages-2Mi", "64Mi")})
	require.Equal(t, "cpu 2, hugepages-2Mi 64Mi, memory 1Gi", p.Containers[0].Asks())
	require.Equal(t, "cpu 3500m, hugepages-2Mi 64Mi, memory 8Gi", p.Budget.String())
}

// TestUnequal: it is told which of CPU and memory makes the pod's requests differ.
func TestUnequal(t *testing.T) {
	for _, c := range []struct {
		budget v1.ResourceRequirements
		want   string
	}{
		{v1.ResourceRequirements{Requests: list("cpu", "8", "memory", "1Gi"), Limits: list("cpu", "8")}, "memory is requested (1Gi) and not limited"},
		{v1.ResourceRequirements{Requests: list("cpu", "8"), Limits: list("cpu", "8")}, "memory is neither requested nor limited"},
		{v1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1Gi"), Limits: list("cpu", "4", "memory", "2Gi")},
			"cpu is requested (2) as less than the limit (4), memory is requested (1Gi) as less than the limit (2Gi)"},
		{v1.ResourceRequirements{Requests: list("memory", "1024Mi"), Limits: list("cpu", "2", "memory", "1Gi")}, "cpu is limited (2) and not requested"},
	} {
		p := read(t, Facts{PodLevel: true}, c.budget, v1.Container{Name: "a"})
		require.Equal(t, "the requests in the pod's .spec.resources do not equal its limits: "+c.want, PodNotGuaranteed.Explain(*p.Budget))
	}
	p := read(t, on, same("cpu", "8", "memory", "1Gi"), v1.Container{Name: "a"})
	require.Empty(t, p.Budget.Unequal)
}

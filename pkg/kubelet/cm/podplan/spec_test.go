// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func same(pairs ...string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: list(pairs...), Limits: list(pairs...)}
}

func specPod() *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	budget := same("cpu", "8", "memory", "16Gi", "hugepages-2Mi", "1Gi")
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"},
		Spec: v1.PodSpec{
			Resources: &budget,
			InitContainers: []v1.Container{
				{Name: "init", Resources: same("cpu", "2", "memory", "1Gi")},
				{Name: "sidecar", RestartPolicy: &always},
			},
			Containers: []v1.Container{
				{Name: "all", Resources: same("cpu", "3", "memory", "2Gi", "hugepages-2Mi", "1Gi")},
				{Name: "fraction", Resources: same("cpu", "1500m", "memory", "1Gi")},
				{Name: "burstable", Resources: v1.ResourceRequirements{
					Requests: list("cpu", "1", "memory", "1Gi"), Limits: list("cpu", "2", "memory", "1Gi"),
				}},
				{Name: "no-memory", Resources: same("cpu", "1")},
			},
		},
	}
}

func TestFromSpec(t *testing.T) {
	p, err := FromSpec(specPod(), Facts{Guaranteed: true, PodLevel: true})
	require.NoError(t, err)
	require.Equal(t, "ns/p", p.Name)
	require.Equal(t, 8, p.BudgetCPUs())
	require.Equal(t, Memory{"memory": 16 << 30, "hugepages-2Mi": 1 << 30}, p.BudgetMemory())

	type row struct {
		kind   Kind
		cpus   int
		memory Memory
	}
	want := map[string]row{
		"init":      {StandardInit, 2, Memory{"memory": 1 << 30}},
		"sidecar":   {Sidecar, 0, nil},
		"all":       {App, 3, Memory{"memory": 2 << 30, "hugepages-2Mi": 1 << 30}},
		"fraction":  {App, 0, Memory{"memory": 1 << 30}},
		"burstable": {App, 0, nil},
		"no-memory": {App, 0, nil},
	}
	for _, c := range p.Containers {
		require.Equal(t, want[c.Name], row{c.Kind, p.ExclusiveCPUs(c), p.ExclusiveMemory(c)}, c.Name)
	}
	require.Len(t, p.Containers, len(want))
}

// What a budget does not say of hugepages is what the API server would have
// written into it.
func TestHugepagesThatTheBudgetDoesNotRequest(t *testing.T) {
	budgetOf := func(change func(*v1.Pod)) Memory {
		pod := specPod()
		delete(pod.Spec.Resources.Requests, "hugepages-2Mi")
		delete(pod.Spec.Resources.Limits, "hugepages-2Mi")
		change(pod)
		p, err := FromSpec(pod, Facts{Guaranteed: true, PodLevel: true})
		require.NoError(t, err)
		return p.BudgetMemory()
	}
	require.Equal(t, Memory{"memory": 16 << 30, "hugepages-2Mi": 1 << 30}, budgetOf(func(*v1.Pod) {}))
	require.Equal(t, Memory{"memory": 16 << 30, "hugepages-2Mi": 3 << 30, "hugepages-1Gi": 2 << 30}, budgetOf(func(pod *v1.Pod) {
		pod.Spec.InitContainers[0].Resources.Requests["hugepages-2Mi"] = resource.MustParse("3Gi")
		pod.Spec.InitContainers[1].Resources = same("hugepages-1Gi", "2Gi")
	}), "the largest phase, sharing containers included")
	require.Equal(t, Memory{"memory": 16 << 30, "hugepages-2Mi": 2 << 30}, budgetOf(func(pod *v1.Pod) {
		pod.Spec.Resources.Limits["hugepages-2Mi"] = resource.MustParse("2Gi")
	}), "the limit")
	require.Equal(t, Memory{"memory": 16 << 30}, budgetOf(func(pod *v1.Pod) {
		pod.Spec.Resources.Requests["hugepages-2Mi"] = resource.MustParse("0")
	}), "said to be none")
	require.Equal(t, Memory{"memory": 16 << 30}, budgetOf(func(pod *v1.Pod) {
		pod.Spec.Containers = pod.Spec.Containers[1:]
	}), "nobody asks")
}

func TestNothingIsExclusiveInUnmanagedPods(t *testing.T) {
	for _, facts := range []Facts{{Guaranteed: true}, {PodLevel: true}} {
		p, err := FromSpec(specPod(), facts)
		require.NoError(t, err)
		require.Zero(t, p.BudgetCPUs())
		require.Empty(t, p.BudgetMemory())
		for _, c := range p.Containers {
			require.Zero(t, p.ExclusiveCPUs(c))
			require.Empty(t, p.ExclusiveMemory(c))
		}
	}
	// The gates do not matter to a pod without a budget.
	pod := specPod()
	pod.Spec.Resources = nil
	p, err := FromSpec(pod, Facts{Guaranteed: true})
	require.NoError(t, err)
	c, _ := p.Container("no-memory")
	require.Equal(t, 1, p.ExclusiveCPUs(c))
}

func TestPeaks(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{
			{Name: "a", Resources: same("cpu", "5", "memory", "1Gi")},
			{Name: "s", Resources: same("cpu", "2", "memory", "4Gi"), RestartPolicy: &always},
			{Name: "b", Resources: same("cpu", "6", "memory", "1Gi")},
		},
		Containers: []v1.Container{{Name: "c", Resources: same("cpu", "3", "memory", "3Gi")}},
	}}
	p, err := FromSpec(pod, Facts{Guaranteed: true})
	require.NoError(t, err)
	require.Equal(t, 8, p.PodCPUs(), "b beside the sidecar")
	require.Equal(t, Memory{"memory": 7 << 30}, p.PodMemory(), "the sidecar beside c")
}

func TestQuantitiesOutOfRange(t *testing.T) {
	for _, c := range []struct{ resource, quantity, err string }{
		{"cpu", "-1", "cpu request -1"},
		{"cpu", "1Ei", "cpu request 1Ei"},
		{"memory", "-1", "must not be negative"},
		{"hugepages-1Gi", "-2Gi", "must not be negative"},
	} {
		pod := specPod()
		pod.Spec.Containers[0].Resources.Requests[v1.ResourceName(c.resource)] = resource.MustParse(c.quantity)
		_, err := FromSpec(pod, Facts{Guaranteed: true, PodLevel: true})
		require.ErrorContains(t, err, c.err)
		require.ErrorContains(t, err, `pod ns/p: container "all"`)

		pod = specPod()
		pod.Spec.Resources.Requests[v1.ResourceName(c.resource)] = resource.MustParse(c.quantity)
		_, err = FromSpec(pod, Facts{Guaranteed: true, PodLevel: true})
		require.ErrorContains(t, err, "pod ns/p: .spec.resources: ")
	}
}

// A quantity that is written too large is cut to the largest int64 when it is
// parsed; a sum can still be larger.
func TestQuantityLargerThanAnyInt64(t *testing.T) {
	sum := resource.MustParse("9223372036854775807")
	sum.Add(sum)
	pod := specPod()
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = sum
	_, err := FromSpec(pod, Facts{Guaranteed: true, PodLevel: true})
	require.ErrorContains(t, err, "failed to represent quantity as int64")
}

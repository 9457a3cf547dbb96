// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

func read(t *testing.T, facts Facts, budget v1.ResourceRequirements, containers ...v1.Container) Pod {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "p", "ns", "u"
	if len(budget.Limits) > 0 {
		pod.Spec.Resources = &budget
	}
	pod.Spec.Containers = containers
	p, err := FromSpec(pod, facts)
	require.NoError(t, err)
	return p
}

var on = Facts{Guaranteed: true, PodLevel: true}

func describe(list []Change) (texts []string) {
	for _, c := range list {
		texts = append(texts, c.String())
	}
	return texts
}

// What is on record stands in for what the pod was admitted with, where the two
// have come apart.
func TestChangesAgainstTheRecord(t *testing.T) {
	spec := func(budget, slice string) Pod {
		return read(t, on, same("cpu", budget, "memory", "8Gi"),
			v1.Container{Name: "a", Resources: same("cpu", slice, "memory", "2Gi")}, v1.Container{Name: "b"})
	}
	held := Amounts{Budget: 4000, Containers: map[string]uint64{"a": 2000, "b": 2000}}
	for _, c := range []struct {
		before, after Pod
		held          Amounts
		want          []string
	}{
		{spec("4", "2"), spec("4", "2"), held, nil},
		{spec("4", "2"), spec("6", "2"), held, []string{`cpu of the pod budget: 4 on record, 6 asked for`}},
		{spec("4", "2"), spec("6", "2"), Amounts{}, []string{`cpu of the pod budget: 4 admitted, 6 asked for`}},
		// An earlier kubelet let the budget grow without giving the pod anything.
		{spec("6", "2"), spec("6", "2"), held, nil},
		{spec("6", "2"), spec("4", "2"), held, nil},
		{spec("6", "3"), spec("4", "2"), held, nil},
		{spec("6", "2"), spec("8", "2"), held, []string{`cpu of the pod budget: 4 on record, 8 asked for`}},
		{spec("4", "2"), spec("4", "1"), held, []string{`cpu of its own for container "a": 2 on record, 1 asked for`}},
		// Container b shares 2 CPUs; that is not a slice of 2.
		{spec("4", "2"), read(t, on, same("cpu", "4", "memory", "8Gi"),
			v1.Container{Name: "a", Resources: same("cpu", "2", "memory", "2Gi")},
			v1.Container{Name: "b", Resources: same("cpu", "2", "memory", "2Gi")}), held,
			[]string{`cpu of its own for container "b": none admitted, 2 asked for`}},
		// Nothing exclusive, before or after.
		{spec("1500m", "500m"), spec("2500m", "700m"), Amounts{}, nil},
		{spec("1500m", "500m"), spec("2", "700m"), Amounts{}, []string{`cpu of the pod budget: 1500m admitted, 2 asked for`}},
		{spec("1500m", "500m"), spec("2500m", "1"), Amounts{}, []string{`cpu of the pod budget: 1500m admitted, 2500m asked for`, `cpu of its own for container "a": none admitted, 1 asked for`}},
	} {
		require.Equal(t, c.want, describe(CPUChanges(c.before, c.after, c.held, false)))
	}
}

// By a budget with a fraction, containers of a pod that is allocated as a whole
// have nothing; what they have from when they were allocated each for itself stays.
func TestChangesOfAPodThatIsAllocatedAsAWhole(t *testing.T) {
	spec := func(budget, slice string) Pod {
		return read(t, on, same("cpu", budget, "memory", "8Gi"), v1.Container{Name: "a", Resources: same("cpu", slice, "memory", "2Gi")})
	}
	changes := func(before, after Pod, held Amounts) []string { return describe(CPUChanges(before, after, held, true)) }
	none := Amounts{}
	require.Empty(t, changes(spec("2500m", "2"), spec("1500m", "1"), none))
	require.Empty(t, changes(spec("2500m", "500m"), spec("2500m", "2"), none))
	require.Equal(t, []string{`cpu of the pod budget: 2500m admitted, 2 asked for`, `cpu of its own for container "a": none admitted, 2 asked for`},
		changes(spec("2500m", "2"), spec("2", "2"), none))
	held := Amounts{Containers: map[string]uint64{"a": 2000}}
	require.Equal(t, []string{`cpu of its own for container "a": 2 on record, 1 asked for`}, changes(spec("2500m", "2"), spec("2500m", "1"), held))
}

// An init container's record has what later containers left of it.
func TestInitContainersHaveNoSliceOnRecord(t *testing.T) {
	spec := func(memory string) Pod {
		pod := &v1.Pod{}
		pod.Spec.InitContainers = []v1.Container{{Name: "init", Resources: same("cpu", "1", "memory", memory)}}
		p, err := FromSpec(pod, on)
		require.NoError(t, err)
		return p
	}
	held := map[string]Amounts{"memory": {Containers: map[string]uint64{"init": 1 << 30}}}
	require.Equal(t, []string{`memory of its own for container "init": 4Gi admitted, 1Gi asked for`},
		describe(MemoryChanges(spec("4Gi"), spec("1Gi"), held)))
}

// A resize that gives every container and the pod the same exclusive amounts
// changes nothing, and any other changes something, in both directions.
func TestChangesAreDifferencesOfAmounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	amounts := []string{"0", "500m", "1", "2"}
	memory := []string{"0", "1Gi", "2Gi"}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	changed, alike := 0, 0
	for range 3000 {
		pods := make([]Pod, 2)
		for i := range pods {
			requests := list("cpu", pick([]string{"4", "3500m"}), "memory", pick([]string{"8Gi", "9Gi"}))
			var containers []v1.Container
			for _, name := range []string{"a", "b"} {
				c := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list("cpu", pick(amounts), "memory", pick(memory))}}
				c.Resources.Limits = c.Resources.Requests.DeepCopy()
				if r.IntN(3) == 0 {
					c.Resources.Limits = list("cpu", "3", "memory", "3Gi")
				}
				containers = append(containers, c)
			}
			pods[i] = read(t, on, v1.ResourceRequirements{Requests: requests, Limits: requests}, containers...)
		}
		p, q := pods[0], pods[1]
		require.Empty(t, CPUChanges(p, p, Amounts{}, false))
		require.Empty(t, MemoryChanges(p, p, nil))
		equal := p.BudgetCPUs() == q.BudgetCPUs()
		memoryEqual := p.BudgetMemory()["memory"] == q.BudgetMemory()["memory"]
		for i := range p.Containers {
			equal = equal && p.ExclusiveCPUs(p.Containers[i]) == q.ExclusiveCPUs(q.Containers[i])
			memoryEqual = memoryEqual && p.ExclusiveMemory(p.Containers[i])["memory"] == q.ExclusiveMemory(q.Containers[i])["memory"]
		}
		require.Equal(t, equal, len(CPUChanges(p, q, Amounts{}, false)) == 0, "%+v %+v", p, q)
		require.Equal(t, memoryEqual, len(MemoryChanges(p, q, nil)) == 0, "%+v %+v", p, q)
		require.Equal(t, len(CPUChanges(p, q, Amounts{}, false)), len(CPUChanges(q, p, Amounts{}, false)))
		if equal && memoryEqual {
			alike++
		} else {
			changed++
		}
	}
	require.Greater(t, alike, 20)
	require.Greater(t, changed, 20)
}

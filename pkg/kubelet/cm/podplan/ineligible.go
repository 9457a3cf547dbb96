// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Ineligibility is why a container of a pod with a budget gets nothing for
// itself although it is written as if it were to. The values are short, for the
// label of a metric.
type Ineligibility string

const (
	// FeatureDisabled: the gates for budgets are off.
	FeatureDisabled Ineligibility = "feature_disabled"
	// PodNotGuaranteed: the pod's requests are not its limits.
	PodNotGuaranteed Ineligibility = "pod_not_guaranteed"
	// MemoryNotGuaranteed: the container's memory request is not its limit.
	MemoryNotGuaranteed Ineligibility = "memory_not_guaranteed"
	// FractionalBudget: the pod is allocated as a whole, and its budget is not a
	// whole number of CPUs.
	FractionalBudget Ineligibility = "fractional_budget"
)

// Ineligibilities are all of them.
func Ineligibilities() []Ineligibility {
	return []Ineligibility{FeatureDisabled, PodNotGuaranteed, MemoryNotGuaranteed, FractionalBudget}
}

// Explain tells what is missing; the budget is that of the pod.
func (i Ineligibility) Explain(budget Budget) string {
	switch i {
	case FeatureDisabled:
		return "the pod states a budget in .spec.resources, and the feature gate PodLevelResources or PodLevelResourceManagers is off"
	case PodNotGuaranteed:
		if budget.Unequal == "" {
			return "the pod's QoS class is not Guaranteed"
		}
		return "the requests in the pod's .spec.resources do not equal its limits: " + budget.Unequal
	case MemoryNotGuaranteed:
		return "in a pod with a budget the container's memory request has to equal its memory limit, too"
	case FractionalBudget:
		return "the pod's budget is not a whole number of CPUs"
	}
	return string(i)
}

// IneligibleForCPUs tells whether the container asks for CPUs as one does who is
// to get them exclusively, a whole number with an equal limit, and gets none, and
// why. Whole is set for a pod that is allocated as a whole. In pods without a
// budget the rules are old and well known, so it is false for them, and with the
// gates off or in a pod that is not Guaranteed, unless the container's memory is
// as it should be, too: such pods do not have the managers in mind.
func (p Pod) IneligibleForCPUs(c Container, whole bool) (Ineligibility, bool) {
	if p.Budget == nil || !c.FixedCPU || wholeCPUs(c.MilliCPU) == 0 {
		return "", false
	}
	switch {
	case !p.Facts.Guaranteed:
		return PodNotGuaranteed, p.Facts.PodLevel && c.Guaranteed
	case !p.Facts.PodLevel:
		return FeatureDisabled, c.Guaranteed
	case !c.Guaranteed:
		return MemoryNotGuaranteed, true
	}
	return FractionalBudget, whole && p.BudgetCPUs() == 0
}

// IneligibleForMemory is the same for memory, of which fractions do not matter.
func (p Pod) IneligibleForMemory(c Container) (Ineligibility, bool) {
	if p.Budget == nil || !c.Guaranteed {
		return "", false
	}
	if !p.Facts.Guaranteed {
		return PodNotGuaranteed, p.Facts.PodLevel
	}
	return FeatureDisabled, !p.Facts.PodLevel
}

// Asks writes what the container asks for: "cpu 2, memory 1Gi".
func (c Container) Asks() string {
	text := fmt.Sprintf("cpu %s", resource.NewMilliQuantity(c.MilliCPU, resource.DecimalSI))
	for _, name := range sortedNames(c.Memory) {
		text += fmt.Sprintf(", %s %s", name, resource.NewQuantity(int64(c.Memory[name]), resource.BinarySI))
	}
	return text
}

// String writes the budget in the same way.
func (b Budget) String() string { return Container{MilliCPU: b.MilliCPU, Memory: b.Memory}.Asks() }

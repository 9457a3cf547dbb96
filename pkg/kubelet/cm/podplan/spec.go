// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Facts are what FromSpec cannot read off a pod.
type Facts struct {
	// Guaranteed says whether the pod's QoS class is Guaranteed.
	Guaranteed bool
	// PodLevel says whether the gates PodLevelResources and
	// PodLevelResourceManagers are both on.
	PodLevel bool
}

// FromSpec reads a pod. It fails, naming the container and the resource, for a
// quantity that is negative or that no int64 can hold.
func FromSpec(pod *v1.Pod, facts Facts) (Pod, error) {
	p := Pod{
		UID:     string(pod.UID),
		Name:    pod.Namespace + "/" + pod.Name,
		Managed: facts.Guaranteed,
		Facts:   facts,
	}
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		p.Managed = p.Managed && facts.PodLevel
		milli, memory, err := amounts(pod.Spec.Resources.Requests)
		if err != nil {
			return Pod{}, fmt.Errorf("pod %s: .spec.resources: %w", p.Name, err)
		}
		p.Budget = &Budget{MilliCPU: milli, Memory: memory}
		if !facts.Guaranteed {
			p.Budget.Unequal = unequal(*pod.Spec.Resources)
		}
	}
	add := func(c *v1.Container, kind Kind) error {
		milli, memory, err := amounts(c.Resources.Requests)
		if err != nil {
			return fmt.Errorf("pod %s: container %q: %w", p.Name, c.Name, err)
		}
		p.Containers = append(p.Containers, Container{
			Name: c.Name, Kind: kind, FixedCPU: isFixed(c, v1.ResourceCPU), Guaranteed: isGuaranteed(c), MilliCPU: milli, LimitMilliCPU: cpuLimit(c), Memory: memory,
		})
		return nil
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		kind := StandardInit
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			kind = Sidecar
		}
		if err := add(c, kind); err != nil {
			return Pod{}, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := add(&pod.Spec.Containers[i], App); err != nil {
			return Pod{}, err
		}
	}
	if p.Budget != nil {
		if err := p.defaultHugepages(pod.Spec.Resources); err != nil {
			return Pod{}, fmt.Errorf("pod %s: .spec.resources: %w", p.Name, err)
		}
	}
	return p, nil
}

// defaultHugepages adds the page sizes that the budget does not request: what
// it has as a limit, or else what the containers ask for together. The API
// server writes the same into pods that pass through it, which static pods do
// not, and the kubelet counts it as what the pod requests.
func (p Pod) defaultHugepages(budget *v1.ResourceRequirements) error {
	_, wanted, err := amounts(budget.Limits)
	if err != nil {
		return err
	}
	for _, c := range p.Containers {
		for name := range c.Memory {
			if _, limited := budget.Limits[v1.ResourceName(name)]; !limited {
				wanted[name] = p.peak(func(c Container) uint64 { return c.Memory[name] })
			}
		}
	}
	for name, size := range wanted {
		_, requested := budget.Requests[v1.ResourceName(name)]
		if strings.HasPrefix(name, v1.ResourceHugePagesPrefix) && !requested {
			p.Budget.Memory[name] = size
		}
	}
	return nil
}

// isGuaranteed reports whether the container by itself meets the conditions of
// the Guaranteed QoS class for CPU and memory.
func isGuaranteed(c *v1.Container) bool {
	return isFixed(c, v1.ResourceCPU) && isFixed(c, v1.ResourceMemory)
}

// isFixed reports whether the container asks for some of the resource and may
// use no more.
func isFixed(c *v1.Container, name v1.ResourceName) bool {
	request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
	return !request.IsZero() && request.Equal(limit)
}

// unequal says what keeps a budget from being Guaranteed.
func unequal(budget v1.ResourceRequirements) string {
	var texts []string
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := budget.Requests[name], budget.Limits[name]
		text := ""
		switch {
		case request.IsZero() && limit.IsZero():
			text = "neither requested nor limited"
		case limit.IsZero():
			text = fmt.Sprintf("requested (%s) and not limited", request.String())
		case request.IsZero():
			text = fmt.Sprintf("limited (%s) and not requested", limit.String())
		case !request.Equal(limit):
			text = fmt.Sprintf("requested (%s) as less than the limit (%s)", request.String(), limit.String())
		default:
			continue
		}
		texts = append(texts, fmt.Sprintf("%s is %s", name, text))
	}
	return strings.Join(texts, ", ")
}

// cpuLimit is the container's CPU limit. One that is out of range limits nothing
// and is no reason to refuse a pod.
func cpuLimit(c *v1.Container) int64 {
	limit := c.Resources.Limits[v1.ResourceCPU]
	if limit.Sign() < 0 || limit.CmpInt64(mostCPUs) > 0 {
		return 0
	}
	return limit.MilliValue()
}

// mostCPUs is more than any machine has, and its thousandths fit an int64.
// MilliValue answers the largest int64 for what it cannot hold.
const mostCPUs = 1 << 40

func amounts(list v1.ResourceList) (milliCPU int64, memory Memory, err error) {
	memory = Memory{}
	for name, quantity := range list {
		switch {
		case name == v1.ResourceCPU:
			if quantity.Sign() < 0 || quantity.CmpInt64(mostCPUs) > 0 {
				return 0, nil, fmt.Errorf("cpu request %s is outside 0 to 2^40", quantity.String())
			}
			milliCPU = quantity.MilliValue()
		case name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
			bytes, err := wholeBytes(quantity)
			if err != nil {
				return 0, nil, fmt.Errorf("%s request %s: %w", name, quantity.String(), err)
			}
			if bytes > 0 {
				memory[string(name)] = bytes
			}
		}
	}
	return milliCPU, memory, nil
}

// wholeBytes converts a quantity of memory, rounding a fraction of a byte up.
func wholeBytes(q resource.Quantity) (uint64, error) {
	if q.Sign() < 0 {
		return 0, fmt.Errorf("must not be negative")
	}
	const mostBytes = 1<<63 - 1
	if q.CmpInt64(mostBytes) > 0 {
		return 0, fmt.Errorf("failed to represent quantity as int64: more than %d bytes", int64(mostBytes))
	}
	return uint64(q.Value()), nil
}

// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

var _ placement.Trier = room{}

// room is what the kubelet checks besides, where it is tried what would help a pod:
// nothing helps that ends in another refusal. In an admission it has no part, since
// the kubelet checks afterwards. The managers of a kubelet cannot know of it.
type room struct{ *admission }

func (room) Name() string                          { return "the kubelet" }
func (room) PodHints() []numa.Resource             { return nil }
func (room) ContainerHints(string) []numa.Resource { return nil }
func (room) AllocatePod() error                    { return nil }
func (room) AllocateContainer(string) error        { return nil }
func (room) AllocatesPods() bool                   { return true }

func (r room) Trial(change numa.Change, _ func(string) numa.Hint) (placement.Provider, error) {
	n, wants := r.node, r.node.Requests(r.pod)
	less := Amounts{Scalars: map[string]int64{}}
	for resource, most := range change.Ask {
		before, counts := r.asks(change.Container, resource)
		if counts && before > most {
			less = less.plus(amountOf(resource, before-most))
		}
	}
	free := Amounts{Scalars: map[string]int64{}}
	for resource, size := range change.Free {
		free = free.plus(amountOf(resource, size))
	}
	n.requested = n.requested.minus(free)
	if n.fits(wants.minus(less)) != nil || n.portsFree(hostPorts(r.pod)) != nil {
		return nil, errNoRoom
	}
	return r, nil
}

var errNoRoom = errors.New("the node does not have what the pod requests")

// asks is how much of the resource is asked for now, and whether less of it makes
// the pod request less: a container's does not where the pod has a budget, and may
// not for an init container.
func (r room) asks(container, resource string) (uint64, bool) {
	pod := r.memoryAsked
	if resource == cpuplan.ResourceName {
		pod = r.cpuAsked
	}
	c, of := pod.Container(container)
	switch {
	case !of && resource == cpuplan.ResourceName:
		return uint64(pod.PodCPUs()), true
	case !of:
		return pod.PodMemory()[resource], true
	case resource == cpuplan.ResourceName:
		return uint64(pod.ExclusiveCPUs(c)), pod.Budget == nil && c.Kind != podplan.StandardInit
	}
	return pod.ExclusiveMemory(c)[resource], pod.Budget == nil && c.Kind != podplan.StandardInit
}

func amountOf(resource string, size uint64) Amounts {
	switch resource {
	case cpuplan.ResourceName:
		return Amounts{MilliCPU: int64(size) * 1000}
	case memplan.Ordinary:
		return Amounts{Memory: int64(size)}
	}
	return Amounts{Scalars: map[string]int64{resource: int64(size)}}
}

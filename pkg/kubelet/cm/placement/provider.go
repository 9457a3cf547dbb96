// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"iter"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// Request is the pod that wants in.
type Request struct {
	// PodUID names the pod; for messages only.
	PodUID string
	// InitContainers and Containers are the names, in the order of the spec.
	InitContainers []string
	Containers     []string
	// PodLevel is set for a pod whose own budget is to be allocated as a whole,
	// where the scope allows it.
	PodLevel bool
	// Resize is set for a pod that has its place and changes its size.
	Resize bool
}

// All yields every container, init containers first.
func (r Request) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, names := range [][]string{r.InitContainers, r.Containers} {
			for _, name := range names {
				if !yield(name) {
					return
				}
			}
		}
	}
}

// Provider is a resource manager, bound to one request. It may also be a
// Participant, a Settler, a Resizer, a PodAllocator, a Holder, an Explainer and a
// Reporter.
type Provider interface {
	// Name is for messages.
	Name() string
	// PodHints and ContainerHints say where the resources that the provider
	// has and the pod asks for could come from. A provider that does not care
	// returns nothing.
	PodHints() []numa.Resource
	ContainerHints(container string) []numa.Resource
	// AllocatePod and AllocateContainer take them, at the affinity that was
	// recorded before.
	AllocatePod() error
	AllocateContainer(container string) error
}

// Participant is a Provider that can stage what it takes.
type Participant interface {
	// Begin opens an admission. What is allocated until its end is staged.
	Begin()
	// Commit makes it durable and visible, or fails and changes nothing.
	Commit() error
	// Rollback ends the admission and gives back what it took, staged or
	// committed.
	Rollback() error
}

// Settler is a Participant that wants to know when the admission is over and
// nothing undoes any more what it committed: everybody after it has committed,
// too. Until then what it took may still go back.
type Settler interface {
	Settle()
}

// Resizer is a Provider whose allocations do not follow a resize.
type Resizer interface {
	// CheckResize returns an error if the resize would change what the pod has
	// of this provider.
	CheckResize() error
}

// PodAllocator is a Provider that can tell whether its AllocatePod serves the
// containers too.
type PodAllocator interface {
	AllocatesPods() bool
}

// Holder is a Provider that remembers earlier admissions.
type Holder interface {
	// Holds reports whether the pod needs anything of this provider, and
	// whether all of it is on record already.
	Holds() (needs, holds bool)
}

// Dropper is a Holder that can let go of what is on record of the pod.
type Dropper interface {
	// Lacks reports whether nothing of the pod is on record.
	Lacks() bool
	// Drop takes the pod's record out of the open admission, unless something of
	// the pod may run.
	Drop()
}

// Explainer is a Provider that can tell in words what was asked of it and what
// it has.
type Explainer interface {
	// Explain is asked before a refused admission is rolled back. The
	// container is "" for the pod as a whole; an empty answer is left out.
	Explain(container string) string
}

// Reporter is a Provider that knows amounts.
type Reporter interface {
	// Report says what the container, or the pod for "", asks for and what there
	// is. It is asked before a refused admission is rolled back. One that knows
	// has no need to Explain.
	Report(container string) (report numa.Report, knows bool)
	// Usage says what is allocated on each node, by the open admission too.
	Usage() []numa.NodeUsage
}

// Decider turns the hints of all resources into an affinity. Policy is one.
type Decider interface {
	// Aligns is false when hints are of no use and need not be gathered.
	Aligns() bool
	// Decide calls usage, at most once, if it is of use.
	Decide(resources []numa.Resource, usage func() *numa.Usage) Decision
}

// Recorder keeps the affinities of the pod's containers, where the providers
// look them up when they allocate.
type Recorder interface {
	Affinity(container string) (affinity numa.Hint, recorded bool)
	Record(container string, affinity numa.Hint)
	Forget(container string)
}

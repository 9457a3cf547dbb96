// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
)

// HintProvider is a manager of resources (devices, CPUs, memory) that takes
// part in placing pods on NUMA nodes. The interface is fixed by the kubelet;
// what a provider can do beyond it, it says by implementing
// AdmissionParticipant, AdmissionSettler, ResizeGuard, PodAllocator,
// AllocationHolder, AllocationDropper, ResourceReporter, AdmissionTrier or
// Explainer as well.
type HintProvider interface {
	// GetTopologyHints says, per resource, which sets of NUMA nodes could serve
	// the container. An empty map or a nil list means that the placement does
	// not matter; a list without entries, that the resource cannot be had.
	GetTopologyHints(logger klog.Logger, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) map[string][]TopologyHint
	// GetPodTopologyHints says the same for the pod as a whole.
	GetPodTopologyHints(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) map[string][]TopologyHint
	// AllocatePod takes what the pod as a whole needs.
	AllocatePod(logger klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error
	// Allocate takes what the container needs, at the affinity that the Store
	// tells for it.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error
}

// AdmissionParticipant is the transactional side of a HintProvider; it is
// optional. Allocations between BeginAdmission and CommitAdmission are staged
// by the provider. CommitAdmission makes them durable in one file replacement
// and publishes them; an error means that nothing changed. RollbackAdmission
// gives back everything that this admission took, staged or already
// committed; what was recorded before the admission stays.
type AdmissionParticipant interface {
	BeginAdmission(logger klog.Logger, podUID string)
	CommitAdmission(logger klog.Logger, podUID string) error
	RollbackAdmission(logger klog.Logger, podUID string) error
}

// AdmissionSettler is implemented by an AdmissionParticipant that wants to know
// when an admission is over; it is optional. SettleAdmission comes after
// CommitAdmission, once all providers have committed: from then on nothing is
// rolled back, so that it can be counted and told.
type AdmissionSettler interface {
	SettleAdmission(logger klog.Logger, podUID string)
}

// ResizeGuard is implemented by providers whose allocations do not follow a
// resize; it is optional. CheckResize returns a ResizeError if the resize would
// change what the pod has of the provider: what is on record of it, or what it
// asks for. Admitted is the pod as it was admitted; it is never nil.
type ResizeGuard interface {
	CheckResize(logger klog.Logger, admitted, resized *v1.Pod) error
}

// PodAllocator is implemented by providers whose AllocatePod covers all of the
// pod's containers. The other ones get Allocate calls per container after
// their AllocatePod; otherwise a pod with pod-level resources would be
// admitted without its devices.
type PodAllocator interface {
	AllocatesPods() bool
}

// AllocationHolder is implemented by providers that keep allocations on record.
// HoldsPod reports whether the pod needs anything of the provider (false for a
// policy that allocates nothing), and whether all of it is on record from an
// earlier admission. A pod that has everything on record is not refused for its
// affinity: the kubelet admits running pods again when it starts.
type AllocationHolder interface {
	HoldsPod(logger klog.Logger, pod *v1.Pod) (needs, holds bool)
}

// AllocationDropper is an AllocationHolder that can let go of what is on record of
// a pod in its open admission; it is optional. DropPod is called when a holder of
// which the pod needs something has nothing on record (LacksPod): the kubelet
// stopped between two records. It does nothing if the pod has had containers.
type AllocationDropper interface {
	LacksPod(logger klog.Logger, podUID string) bool
	DropPod(logger klog.Logger, podUID string)
}

// ResourceReporter is implemented by providers that know amounts; it is optional.
type ResourceReporter interface {
	// ReportResources says what is asked of the provider, for the container or,
	// when that is nil, for the pod as a whole, and what each NUMA node has. It
	// is asked when an admission is refused, before it is rolled back, and its
	// facts become a part of the refusal's text. An empty report means that the
	// provider has no part in it.
	ReportResources(logger klog.Logger, pod *v1.Pod, container *v1.Container) numa.Report
	// ReportUsage says what is allocated on each NUMA node, by the pod's open
	// admission too. It is asked for the policy option numa-tie-break.
	ReportUsage(logger klog.Logger, podUID string) []numa.NodeUsage
}

// AdmissionTrier is implemented by providers that can tell what would come of an
// admission if something were different; it is optional. It is asked when an
// admission is refused, before it is rolled back, for what the refusal says would
// help. Trial returns a provider that answers for the pod with the change, and
// without what the open admission gave it; nothing that it allocates is recorded or
// counted. It fails with numa.ErrImpossible if the change cannot be, and for a pod
// that has something on record.
type AdmissionTrier interface {
	Trial(logger klog.Logger, pod *v1.Pod, change numa.Change, affinity func(container string) numa.Hint) (placement.Provider, error)
}

// Explainer is for providers that can only tell in words; it is optional, and
// not asked of a ResourceReporter. ExplainHints says in a few words what is asked
// of the provider and what each NUMA node has. The container is nil when the
// whole pod is meant. The empty string means that there is nothing to say.
type Explainer interface {
	ExplainHints(logger klog.Logger, pod *v1.Pod, container *v1.Container) string
}

// Store tells the affinity on which the topology manager decided. A container
// without a decision has the zero hint.
type Store interface {
	GetAffinity(logger klog.Logger, podUID string, containerName string) TopologyHint
	// GetPolicy returns the policy in force; it may be nil in fakes.
	GetPolicy() Policy
	// Name returns the name of the scope in force.
	Name() string
}

// AuthoritativeStore is a Store that can say that a container's hint is final:
// when IsHintAuthoritative is true, the nodes of the hint must be used as they
// are and never extended. On Windows memory has to follow the CPUs (there is
// no cpuset.mems), and the kubelet there wraps the Store to say so.
type AuthoritativeStore interface {
	Store
	IsHintAuthoritative(podUID, containerName string) bool
}

// Policy merges the hints of all providers into one and decides whether it is
// good enough.
type Policy interface {
	Name() string
	Merge(logger klog.Logger, providersHints []map[string][]TopologyHint) (TopologyHint, bool)
}

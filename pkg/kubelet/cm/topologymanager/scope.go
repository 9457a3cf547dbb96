// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"context"
	"errors"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/cm/admission"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
)

// Names of the scopes. NoneTopologyScope is that of policy none.
const (
	ContainerTopologyScope = string(placement.ScopeContainer)
	PodTopologyScope       = string(placement.ScopePod)
	NoneTopologyScope      = string(placement.ScopeNone)
)

// Scope admits pods, aligned container by container or as a whole.
type Scope interface {
	Admit(ctx context.Context, pod *v1.Pod, operation lifecycle.Operation) lifecycle.PodAdmitResult
	// AddHintProvider appends a provider; providers are called in this order.
	AddHintProvider(logger klog.Logger, h HintProvider)
	AddContainer(pod *v1.Pod, container *v1.Container, containerID string)
	RemoveContainer(logger klog.Logger, containerID string) error
	Store
}

// NewNoneScope returns the scope of policy none: nothing is aligned.
func NewNoneScope() Scope { return newScope(placement.ScopeNone, NewNonePolicy()) }

// NewContainerScope returns the scope that aligns each container.
func NewContainerScope(policy Policy) Scope { return newScope(placement.ScopeContainer, policy) }

// NewPodScope returns the scope that aligns the pod as a whole.
func NewPodScope(policy Policy) Scope { return newScope(placement.ScopePod, policy) }

type scope struct {
	kind   placement.Scope
	policy Policy
	hints  *hintStore
	// admitted are the pods of which there may be hints, as they were admitted.
	admitted admittedPods

	mu        sync.Mutex
	providers []HintProvider
}

func newScope(kind placement.Scope, policy Policy) *scope {
	return &scope{kind: kind, policy: policy, hints: newHintStore()}
}

func (s *scope) Name() string { return string(s.kind) }

func (s *scope) GetPolicy() Policy { return s.policy }

func (s *scope) GetAffinity(_ klog.Logger, podUID string, containerName string) TopologyHint {
	hint, ok := s.hints.get(podUID, containerName)
	if !ok {
		return TopologyHint{}
	}
	return HintFromNUMA(hint) // a mask of its own: callers may change it
}

func (s *scope) AddHintProvider(_ klog.Logger, h HintProvider) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.providers = append(s.providers, h)
}

// AddContainer has nothing to do: hints are kept by pod and name, not by ID.
func (s *scope) AddContainer(*v1.Pod, *v1.Container, string) {}

// RemoveContainer has nothing to do either: the container may start again.
func (s *scope) RemoveContainer(logger klog.Logger, containerID string) error {
	logger.V(4).Info("Container removed", "containerID", containerID)
	return nil
}

func (s *scope) Admit(ctx context.Context, pod *v1.Pod, operation lifecycle.Operation) lifecycle.PodAdmitResult {
	s.mu.Lock()
	providers := slices.Clone(s.providers)
	s.mu.Unlock()

	a := newPodAdmission(ctx, pod, operation)
	a.admitted = s.admitted.get(string(pod.UID))
	podLevel := utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResourceManagers) && resourcehelper.IsPodLevelResourcesSet(pod)
	request := a.request(podLevel)
	err := placement.Admit(request, s.kind, deciderOf(a.logger, s.policy), a.bind(providers), recorder{s.hints, request.PodUID})
	s.count(request, err)
	if err == nil {
		// A resize that is admitted changes nothing that a guard would mind, so
		// that it does no harm if another handler refuses it after this one.
		s.admitted.add(pod)
	}
	if err != nil {
		err = refusal(a.logger, err)
		a.logger.V(2).Info("Pod refused", "scope", s.Name(), "reason", err.Error())
	} else if s.kind != placement.ScopeNone && !request.Resize {
		for container := range request.All() {
			hint, _ := s.hints.get(request.PodUID, container)
			a.logger.V(2).Info("Affinity", "scope", s.Name(), "containerName", container, "nodes", hint.Nodes.String(), "any", hint.Any, "preferred", hint.Preferred)
		}
	}
	return admission.GetPodAdmitResult(err)
}

// refusal turns the core's error into the one for the pod's status, and logs
// what the status has no place for.
func refusal(logger klog.Logger, err error) error {
	logUndone(logger, err)
	var resize *placement.ResizeRefusal
	if errors.As(err, &resize) {
		return infeasibleResize{resize}
	}
	var affinity *placement.AffinityRefusal
	if errors.As(err, &affinity) {
		if affinity.PodLevel {
			return &PodLevelTopologyAffinityError{sentence: affinity.Sentence(), facts: affinity.Details()}
		}
		return &TopologyAffinityError{facts: affinity.Details()}
	}
	return placement.Cause(err)
}

func logUndone(logger klog.Logger, err error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, e := range joined.Unwrap() {
		if undo, ok := e.(*placement.UndoError); ok {
			logger.Error(undo, "Refused pod was not undone completely")
		}
	}
}

// count keeps the metrics of one admission. A resize places nothing and is none;
// a pod that kept its place although it is not aligned does not count as an
// alignment.
func (s *scope) count(request placement.Request, err error) {
	if request.Resize {
		var refusal *placement.ResizeRefusal
		if errors.As(err, &refusal) {
			infeasibleResize{refusal}.count()
		}
		return
	}
	if err != nil {
		metrics.TopologyManagerAdmissionErrorsTotal.Inc()
	}
	if s.kind == placement.ScopeNone || !IsAlignmentGuaranteed(s.policy) {
		return
	}
	label := metrics.AlignScopePod
	if s.kind == placement.ScopeContainer {
		label = metrics.AlignScopeContainer
	}
	var affinity *placement.AffinityRefusal
	if errors.As(err, &affinity) {
		metrics.ContainerAlignedComputeResourcesFailure.WithLabelValues(label, metrics.AlignedNUMANode).Inc()
	}
	if err != nil {
		return
	}
	aligned := 0
	for container := range request.All() {
		if hint, _ := s.hints.get(request.PodUID, container); hint.Preferred {
			aligned++
		}
	}
	if s.kind == placement.ScopePod {
		aligned = min(aligned, 1)
	}
	metrics.ContainerAlignedComputeResources.WithLabelValues(label, metrics.AlignedNUMANode).Add(float64(aligned))
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
)

// podAdmission is the pod and the operation that providers are bound to while
// the core admits the pod.
type podAdmission struct {
	ctx        context.Context
	logger     klog.Logger
	pod        *v1.Pod
	operation  lifecycle.Operation
	containers map[string]*v1.Container
	// admitted is the pod as it was admitted; for a resize.
	admitted *v1.Pod
}

func newPodAdmission(ctx context.Context, pod *v1.Pod, operation lifecycle.Operation) *podAdmission {
	a := &podAdmission{
		ctx:        ctx,
		logger:     klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KObj(pod), "operation", operation),
		pod:        pod,
		operation:  operation,
		containers: make(map[string]*v1.Container, len(pod.Spec.InitContainers)+len(pod.Spec.Containers)),
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			a.containers[list[i].Name] = &list[i]
		}
	}
	return a
}

func (a *podAdmission) request(podLevel bool) placement.Request {
	names := func(containers []v1.Container) (names []string) {
		for i := range containers {
			names = append(names, containers[i].Name)
		}
		return names
	}
	return placement.Request{
		PodUID:         string(a.pod.UID),
		InitContainers: names(a.pod.Spec.InitContainers),
		Containers:     names(a.pod.Spec.Containers),
		PodLevel:       podLevel,
		Resize:         a.operation == lifecycle.ResizeOperation,
	}
}

// bind returns the core's view of the providers for this admission.
func (a *podAdmission) bind(providers []HintProvider) []placement.Provider {
	bound := make([]placement.Provider, 0, len(providers))
	for _, p := range providers {
		b := boundProvider{a, p}
		if t, ok := p.(AdmissionParticipant); ok {
			bound = append(bound, boundParticipant{b, t})
		} else {
			bound = append(bound, b)
		}
	}
	return bound
}

// boundProvider is a HintProvider for one admission.
type boundProvider struct {
	*podAdmission
	provider HintProvider
}

func (b boundProvider) Name() string { return fmt.Sprintf("%T", b.provider) }

func (b boundProvider) PodHints() []numa.Resource {
	hints := b.provider.GetPodTopologyHints(b.logger, b.pod, b.operation)
	b.logger.V(5).Info("Hints for the pod", "provider", b.Name(), "hints", hints)
	return resourcesOf(hints)
}

func (b boundProvider) ContainerHints(container string) []numa.Resource {
	hints := b.provider.GetTopologyHints(b.logger, b.pod, b.containers[container], b.operation)
	b.logger.V(5).Info("Hints for the container", "provider", b.Name(), "containerName", container, "hints", hints)
	return resourcesOf(hints)
}

func (b boundProvider) AllocatePod() error {
	return b.provider.AllocatePod(b.logger, b.pod, b.operation)
}

func (b boundProvider) AllocateContainer(container string) error {
	return b.provider.Allocate(b.ctx, b.pod, b.containers[container], b.operation)
}

func (b boundProvider) AllocatesPods() bool {
	p, ok := b.provider.(PodAllocator)
	return ok && p.AllocatesPods()
}

// CheckResize cannot tell of a pod that was never admitted here; the kubelet
// resizes none.
func (b boundProvider) CheckResize() error {
	g, ok := b.provider.(ResizeGuard)
	if !ok || b.admitted == nil {
		return nil
	}
	return g.CheckResize(b.logger, b.admitted, b.pod)
}

func (b boundProvider) Holds() (needs, holds bool) {
	h, ok := b.provider.(AllocationHolder)
	if !ok {
		return false, false
	}
	return h.HoldsPod(b.logger, b.pod)
}

func (b boundProvider) Lacks() bool {
	d, ok := b.provider.(AllocationDropper)
	return ok && d.LacksPod(b.logger, string(b.pod.UID))
}

func (b boundProvider) Drop() {
	if d, ok := b.provider.(AllocationDropper); ok {
		d.DropPod(b.logger, string(b.pod.UID))
	}
}

func (b boundProvider) Explain(container string) string {
	e, ok := b.provider.(Explainer)
	if !ok {
		return ""
	}
	return e.ExplainHints(b.logger, b.pod, b.containers[container]) // nil for ""
}

func (b boundProvider) Report(container string) (report numa.Report, knows bool) {
	r, ok := b.provider.(ResourceReporter)
	if !ok {
		return numa.Report{}, false
	}
	return r.ReportResources(b.logger, b.pod, b.containers[container]), true
}

func (b boundProvider) Usage() []numa.NodeUsage {
	r, ok := b.provider.(ResourceReporter)
	if !ok {
		return nil
	}
	return r.ReportUsage(b.logger, string(b.pod.UID))
}

func (b boundProvider) Trial(change numa.Change, affinity func(container string) numa.Hint) (placement.Provider, error) {
	t, ok := b.provider.(AdmissionTrier)
	if !ok {
		return nil, numa.ErrUntried
	}
	return t.Trial(b.logger, b.pod, change, affinity)
}

// boundParticipant is a boundProvider that has transactions.
type boundParticipant struct {
	boundProvider
	participant AdmissionParticipant
}

func (b boundParticipant) Begin() { b.participant.BeginAdmission(b.logger, string(b.pod.UID)) }

func (b boundParticipant) Commit() error {
	return b.participant.CommitAdmission(b.logger, string(b.pod.UID))
}

func (b boundParticipant) Rollback() error {
	return b.participant.RollbackAdmission(b.logger, string(b.pod.UID))
}

func (b boundParticipant) Settle() {
	if s, ok := b.provider.(AdmissionSettler); ok {
		s.SettleAdmission(b.logger, string(b.pod.UID))
	}
}

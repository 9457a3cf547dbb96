// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"cmp"
	"context"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podslice"
)

// Manager is what the kubelet uses: an admission handler, told about containers
// as they come and go, and the Store of its decisions.
type Manager interface {
	lifecycle.PodAdmitHandler
	// AddHintProvider appends a provider; providers are called in this order.
	AddHintProvider(logger klog.Logger, h HintProvider)
	// AddContainer tells the ID under which a container is about to run. Hints
	// live as long as the pod, so neither this nor RemoveContainer changes any.
	AddContainer(logger klog.Logger, pod *v1.Pod, container *v1.Container, containerID string)
	// RemoveContainer tells that the container with this ID has ended.
	RemoveContainer(logger klog.Logger, containerID string) error
	Store
}

// manager is a Scope, with a clock around it.
type manager struct {
	Scope
}

var _ Manager = manager{}

// NewManager returns the manager for the machine's nodes and the kubelet's
// configuration. With policy none, scope, options and nodes do not matter and
// are not looked at.
func NewManager(logger klog.Logger, topology []cadvisorapi.Node, topologyPolicyName string, topologyScopeName string, topologyPolicyOptions map[string]string) (Manager, error) {
	registerMetrics()
	ids, distances := nodesOf(topology)
	configured, err := placement.Configure(placement.Configuration{
		Policy: topologyPolicyName, Scope: topologyScopeName, Options: topologyPolicyOptions, Alpha: alphaOptions(),
	}, ids, distances)
	if err != nil {
		return nil, ofPlatform(err)
	}
	if topologyPolicyName == PolicyNone {
		logger.Info("Creating topology manager", "podslice", podslice.Version, "policy", PolicyNone)
		return manager{NewNoneScope()}, nil
	}
	opts := configured.Options
	logger.Info("Creating topology manager", "podslice", podslice.Version,
		"policy", topologyPolicyName, "scope", topologyScopeName,
		"preferClosestNUMANodes", opts.PreferClosestNUMA, "maxAllowableNUMANodes", opts.MaxAllowableNUMANodes,
		"numaTieBreak", cmp.Or(opts.NUMATieBreak, TieBreakLowest), "bestEffortLocality", opts.BestEffortLocality, "nodes", ids)
	// The kubelet registers its metrics after it has made its managers, and what is
	// added to one before is lost without a word. It registers only once.
	metrics.Register()
	for _, scope := range []string{metrics.AlignScopeContainer, metrics.AlignScopePod} {
		// A series that starts at 0 can be told from one that is missing.
		metrics.ContainerAlignedComputeResources.WithLabelValues(scope, metrics.AlignedNUMANode).Add(0)
		metrics.ContainerAlignedComputeResourcesFailure.WithLabelValues(scope, metrics.AlignedNUMANode).Add(0)
	}
	return manager{newScope(configured.Scope, corePolicy{configured.Policy})}, nil
}

func (m manager) AddContainer(_ klog.Logger, pod *v1.Pod, container *v1.Container, containerID string) {
	m.Scope.AddContainer(pod, container, containerID)
}

func (m manager) Admit(ctx context.Context, attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	// A resize is no admission: it places nothing.
	counted := attrs.Operation != lifecycle.ResizeOperation
	if counted {
		metrics.TopologyManagerAdmissionRequestsTotal.Inc()
	}
	start := time.Now()
	m.forgetGone(attrs)
	result := m.Scope.Admit(ctx, attrs.Pod, attrs.Operation)
	took := time.Since(start)
	if counted {
		observeAdmission(took)
	}
	klog.FromContext(ctx).V(4).Info("Admission done", "pod", klog.KObj(attrs.Pod), "admit", result.Admit, "reason", result.Reason, "took", took)
	return result
}

// forgetGone drops what is kept of pods that the kubelet no longer has. Those that
// it has are in every admission, with the pod itself.
func (m manager) forgetGone(attrs *lifecycle.PodAdmitAttributes) {
	s, ok := m.Scope.(*scope)
	if !ok {
		return
	}
	known := make(map[string]bool, len(attrs.OtherPods)+1)
	known[string(attrs.Pod.UID)] = true
	for _, pod := range attrs.OtherPods {
		known[string(pod.UID)] = true
	}
	s.hints.retain(known)
	s.admitted.retain(known)
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/admission"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// ResizeError is what a ResizeGuard returns: the resize would change what the
// pod has of it. The text begins with the kubelet's own sentence.
type ResizeError struct {
	// Manager and Policy are as in that sentence: "CPU" and "static".
	Manager, Policy string
	Changes         []podplan.Change
}

func (e *ResizeError) Error() string {
	facts := make([]string, len(e.Changes))
	for i, c := range e.Changes {
		facts[i] = c.String()
	}
	return fmt.Sprintf("Resize is infeasible for Guaranteed Pods alongside %s Manager policy %q: %s", e.Manager, e.Policy, strings.Join(facts, "; "))
}

// detail is the label by which the kubelet counts such resizes when it refuses
// them itself.
func (e *ResizeError) detail() string {
	return fmt.Sprintf("guaranteed_pod_%s_manager_static_policy", strings.ToLower(e.Manager))
}

// infeasibleResize is the refusal of a resize. The kubelet tries resizes that are
// refused for any other reason again and again.
type infeasibleResize struct{ *placement.ResizeRefusal }

var _ admission.Error = infeasibleResize{}

// Type is the reason in the pod's status.
func (infeasibleResize) Type() string { return v1.PodReasonInfeasible }

// count counts the resize as the kubelet does, by the first cause.
func (r infeasibleResize) count() {
	var first *ResizeError
	if errors.As(r.ResizeRefusal, &first) {
		metrics.PodInfeasibleResizes.WithLabelValues(first.detail()).Inc()
	}
}

// admittedPods keeps each pod as it was admitted: what a resize would change can
// only be told beside that. The kubelet admits all of its pods when it starts, with
// the resources that were allocated to them, before it looks at any resize. Pods
// are forgotten together with their hints.
type admittedPods struct {
	mu   sync.Mutex
	pods map[string]*v1.Pod
}

func (a *admittedPods) get(uid string) *v1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[uid]
}

// add keeps no more of the pod than what it asks for.
func (a *admittedPods) add(pod *v1.Pod) {
	kept := &v1.Pod{Status: v1.PodStatus{QOSClass: pod.Status.QOSClass}}
	kept.UID, kept.Name, kept.Namespace = pod.UID, pod.Name, pod.Namespace
	kept.Spec.Resources = pod.Spec.Resources.DeepCopy()
	strip := func(containers []v1.Container) (asks []v1.Container) {
		for _, c := range containers {
			asks = append(asks, v1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: *c.Resources.DeepCopy()})
		}
		return asks
	}
	kept.Spec.InitContainers, kept.Spec.Containers = strip(pod.Spec.InitContainers), strip(pod.Spec.Containers)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods = map[string]*v1.Pod{}
	}
	a.pods[string(pod.UID)] = kept
}

func (a *admittedPods) retain(known map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid := range a.pods {
		if !known[uid] {
			delete(a.pods, uid)
		}
	}
}

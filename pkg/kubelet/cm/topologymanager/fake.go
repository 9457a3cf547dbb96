// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// fakeManager admits every pod and answers what it was made with. The kubelet
// itself uses it where there is no container manager.
type fakeManager struct {
	hint   TopologyHint
	policy Policy
	scope  string
}

var _ Manager = (*fakeManager)(nil)

// NewFakeManager returns a manager with empty hints, no policy and no scope.
func NewFakeManager(klog.Logger) Manager { return &fakeManager{} }

// NewFakeManagerWithScope returns a fake of the given scope.
func NewFakeManagerWithScope(scope string) Manager { return &fakeManager{scope: scope} }

// NewFakeManagerWithHint returns a fake with policy none that has this hint for
// every container; nil means the empty hint.
func NewFakeManagerWithHint(_ klog.Logger, hint *TopologyHint) Manager {
	m := &fakeManager{policy: NewNonePolicy()}
	if hint != nil {
		m.hint = *hint
	}
	return m
}

// NewFakeManagerWithPolicy returns a fake of the given policy.
func NewFakeManagerWithPolicy(_ klog.Logger, policy Policy) Manager {
	return &fakeManager{policy: policy}
}

func (m *fakeManager) GetAffinity(klog.Logger, string, string) TopologyHint { return m.hint }

func (m *fakeManager) GetPolicy() Policy { return m.policy }

func (m *fakeManager) Name() string { return m.scope }

func (m *fakeManager) AddHintProvider(klog.Logger, HintProvider) {}

func (m *fakeManager) AddContainer(klog.Logger, *v1.Pod, *v1.Container, string) {}

func (m *fakeManager) RemoveContainer(klog.Logger, string) error { return nil }

func (m *fakeManager) Admit(context.Context, *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return lifecycle.PodAdmitResult{Admit: true}
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"context"
	"fmt"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	cadvisorapi "github.com/google/cadvisor/lib/model"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

var silent = klog.Logger{}

// at is a hint for the given nodes.
func at(preferred bool, nodes ...int) TopologyHint {
	m, err := bitmask.NewBitMask(nodes...)
	if err != nil {
		panic(err)
	}
	return TopologyHint{NUMANodeAffinity: m, Preferred: preferred}
}

func show(h TopologyHint) string {
	if h.NUMANodeAffinity == nil {
		return fmt.Sprintf("any %t", h.Preferred)
	}
	return fmt.Sprintf("{%s} %t", bitmask.ToSet(h.NUMANodeAffinity), h.Preferred)
}

func nodes(ids ...int) (topology []cadvisorapi.Node) {
	for _, id := range ids {
		topology = append(topology, cadvisorapi.Node{Id: id})
	}
	return topology
}

func pod(uid string, podLevel bool, containers ...string) *v1.Pod {
	p := &v1.Pod{}
	p.UID, p.Name, p.Namespace = types.UID(uid), uid, "default"
	for _, name := range containers {
		if init, ok := strings.CutPrefix(name, "init:"); ok {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: init})
		} else {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name})
		}
	}
	if podLevel {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("1Gi")}
		p.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
	}
	return p
}

func admit(m Manager, p *v1.Pod, operation lifecycle.Operation, others ...*v1.Pod) lifecycle.PodAdmitResult {
	ctx := klog.NewContext(context.Background(), silent)
	return m.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: p, OtherPods: others, Operation: operation})
}

// plain is a provider as upstream knows it, like the device manager.
type plain struct {
	hints map[string][]TopologyHint
	fail  error

	mu    sync.Mutex
	calls []string
}

func (p *plain) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, fmt.Sprintf(format, args...))
}

func (p *plain) GetTopologyHints(klog.Logger, *v1.Pod, *v1.Container, lifecycle.Operation) map[string][]TopologyHint {
	return p.hints
}

func (p *plain) GetPodTopologyHints(klog.Logger, *v1.Pod, lifecycle.Operation) map[string][]TopologyHint {
	return p.hints
}

func (p *plain) AllocatePod(_ klog.Logger, pod *v1.Pod, operation lifecycle.Operation) error {
	p.note("pod %s %s", pod.UID, operation)
	return nil
}

func (p *plain) Allocate(_ context.Context, pod *v1.Pod, container *v1.Container, operation lifecycle.Operation) error {
	p.note("container %s/%s %s", pod.UID, container.Name, operation)
	return p.fail
}

// full is a provider with everything that is optional.
type full struct {
	plain
	explanation string
	commit      error
	rollback    error
	holds       bool
}

func (f *full) BeginAdmission(_ klog.Logger, uid string) { f.note("begin %s", uid) }

func (f *full) CommitAdmission(_ klog.Logger, uid string) error {
	f.note("commit %s", uid)
	return f.commit
}

func (f *full) RollbackAdmission(_ klog.Logger, uid string) error {
	f.note("rollback %s", uid)
	return f.rollback
}

func (f *full) AllocatesPods() bool { return true }

func (f *full) HoldsPod(klog.Logger, *v1.Pod) (needs, holds bool) { return true, f.holds }

func (f *full) ExplainHints(_ klog.Logger, _ *v1.Pod, container *v1.Container) string {
	if container == nil || f.explanation == "" {
		return f.explanation
	}
	return f.explanation + " by " + container.Name
}

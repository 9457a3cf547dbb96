// SPDX-License-Identifier: Apache-2.0

package cpumanager

import (
	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
)

// targets says where containers belong, according to one published content. It
// is the content in sets that are cheap to compare.
type targets struct {
	content *state.Content
	// shared is the node shared pool, own the CPUs of containers that have a
	// slice or run in the pool of their pod.
	shared cpuplan.Set
	own    map[containerKey]cpuplan.Set
}

// of is where the container belongs; ephemeral containers, which have no CPUs of
// their own, are in the node shared pool. It is empty if nothing is known.
func (t *targets) of(key containerKey) cpuplan.Set {
	if cpus, ok := t.own[key]; ok {
		return cpus
	}
	return t.shared
}

// isOwn reports whether the container's CPUs are kept from other pods.
func (t *targets) isOwn(key containerKey) bool {
	_, ok := t.own[key]
	return ok
}

// targets reads what is published. It needs no lock.
func (m *manager) targets() *targets {
	content := m.content()
	if t := m.lastTargets.Load(); t != nil && t.content == content {
		return t
	}
	t := &targets{content: content, own: map[containerKey]cpuplan.Set{}}
	if m.node == nil {
		// Whatever was pinned under another policy is released.
		t.shared = toPlan(m.allCPUs)
	} else {
		t.shared = toPlan(content.Default)
	}
	for uid, containers := range content.Assignments {
		for name, cpus := range containers {
			t.own[containerKey{uid, name}] = toPlan(cpus)
		}
	}
	// Racing callers store what each of them reads again.
	m.lastTargets.Store(t)
	return t
}

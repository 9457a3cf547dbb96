// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager/bitmask"
)

func TestNewManager(t *testing.T) {
	closest := map[string]string{PreferClosestNUMANodes: "true"}
	withRows := func(rows map[int][]uint64, ids ...int) []cadvisorapi.Node {
		topology := nodes(ids...)
		for i := range topology {
			topology[i].Distances = rows[ids[i]]
		}
		return topology
	}
	for _, c := range []struct {
		name     string
		topology []cadvisorapi.Node
		policy   string
		scope    string
		options  map[string]string
		want     string // error
	}{
		{name: "none looks at nothing", topology: nodes(99), policy: "none", scope: "?", options: map[string]string{"x": "y"}},
		{name: "gaps", topology: nodes(0, 63), policy: "restricted", scope: "pod"},
		{name: "gaps and distances", topology: withRows(map[int][]uint64{0: {10, 20}, 8: {20, 10}}, 0, 8), policy: "restricted", scope: "pod", options: closest},
		{name: "distances not needed", topology: withRows(map[int][]uint64{0: {10}}, 0, 8), policy: "best-effort", scope: "container"},
		{name: "distances switched off", topology: nodes(0, 1), policy: "best-effort", scope: "container", options: map[string]string{PreferClosestNUMANodes: "false"}},
		{name: "nine nodes", topology: nodes(0, 1, 2, 3, 4, 5, 6, 7, 8), policy: "restricted", scope: "pod"},
		{name: "all nodes that a mask can hold", topology: nodes(upTo(64)...), policy: "restricted", scope: "pod"},
		{name: "a limit that is not needed", topology: nodes(upTo(36)...), policy: "restricted", scope: "pod", options: map[string]string{MaxAllowableNUMANodes: "40"}},
		{name: "tie-breaks", topology: nodes(0, 1), policy: "restricted", scope: "pod", options: map[string]string{NUMATieBreak: "most-allocated", BestEffortLocality: "false"}},
		{name: "locality and distances", topology: withRows(map[int][]uint64{0: {10, 20}, 8: {20, 10}}, 0, 8), policy: "best-effort", scope: "pod", options: map[string]string{BestEffortLocality: "true"}},

		{name: "policy", topology: nodes(0), policy: "strict", scope: "pod", want: `unknown policy: "strict"`},
		{name: "scope", topology: nodes(0), policy: "restricted", scope: "none", want: `unknown scope: "none"`},
		{name: "nine nodes over a limit", topology: nodes(0, 1, 2, 3, 4, 5, 6, 7, 8), policy: "restricted", scope: "pod", options: map[string]string{MaxAllowableNUMANodes: "8"},
			want: `unsupported on machines with more than 8 NUMA Nodes: this one has 9, see the policy option "max-allowable-numa-nodes"`},
		{name: "ID", topology: nodes(0, 64), policy: "restricted", scope: "pod",
			want: "cannot discover NUMA topology: NUMA node ID 64 is outside the supported range 0-63: the kubelet's managers exchange sets of NUMA nodes as masks of 64 bits; of the topology manager, only policy \"none\" works on this machine"},
		{name: "negative ID", topology: nodes(-1), policy: "restricted", scope: "pod",
			want: "cannot discover NUMA topology: NUMA node ID -1 is outside the supported range 0-63: the kubelet's managers exchange sets of NUMA nodes as masks of 64 bits; of the topology manager, only policy \"none\" works on this machine"},
		{name: "no distances", topology: withRows(map[int][]uint64{0: {10, 20}}, 0, 1), policy: "restricted", scope: "pod", options: closest,
			want: "cannot discover NUMA topology: error getting NUMA distances from cadvisor: NUMA node 1 has none, and the \"prefer-closest-numa-nodes\" policy option needs them"},
		{name: "few distances", topology: withRows(map[int][]uint64{0: {10, 20}, 8: {20}}, 0, 8), policy: "restricted", scope: "pod", options: closest,
			want: `cannot discover NUMA topology: the "prefer-closest-numa-nodes" policy option needs the distances of all NUMA nodes: NUMA node 8 has 1 distances [20], want 2, one for each of the nodes 0,8`},
		{name: "no distances for locality", topology: nodes(0, 1), policy: "best-effort", scope: "pod", options: map[string]string{BestEffortLocality: "true"},
			want: `cannot discover NUMA topology: error getting NUMA distances from cadvisor: NUMA node 0 has none, and the "best-effort-locality" policy option needs them`},
		{name: "many distances for locality", topology: withRows(map[int][]uint64{0: {10, 20, 30}, 1: {20, 10}}, 0, 1), policy: "best-effort", scope: "pod", options: map[string]string{BestEffortLocality: "true"},
			want: `cannot discover NUMA topology: the "best-effort-locality" policy option needs the distances of all NUMA nodes: NUMA node 0 has 3 distances [10 20 30], want 2, one for each of the nodes 0-1`},
		{name: "tie-break", topology: nodes(0), policy: "restricted", scope: "pod", options: map[string]string{NUMATieBreak: "random"},
			want: `bad value for option "numa-tie-break": "random", want one of ["lowest" "most-allocated" "least-allocated"]`},
		{name: "locality", topology: nodes(0), policy: "restricted", scope: "pod", options: map[string]string{BestEffortLocality: "1"},
			want: `bad value for option "best-effort-locality": "1", want "true" or "false"`},

		{name: "option", topology: nodes(0), policy: "restricted", scope: "pod", options: map[string]string{"prefer-far": "true"},
			want: `unknown Topology Manager Policy option: "prefer-far"`},
		{name: "two bad options", topology: nodes(0), policy: "restricted", scope: "pod", options: map[string]string{"b": "", "a": "", "c": ""},
			want: `unknown Topology Manager Policy option: "a"`},
		{name: "no boolean", topology: nodes(0), policy: "restricted", scope: "pod", options: map[string]string{PreferClosestNUMANodes: "maybe"},
			want: `bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "maybe": invalid syntax`},
		{name: "no number", topology: nodes(0), policy: "restricted", scope: "pod", options: map[string]string{MaxAllowableNUMANodes: "many"},
			want: `unable to convert policy option to integer "max-allowable-numa-nodes": strconv.Atoi: parsing "many": invalid syntax`},
		{name: "few", topology: nodes(0), policy: "restricted", scope: "pod", options: map[string]string{MaxAllowableNUMANodes: "7"},
			want: `the minimum value of "max-allowable-numa-nodes" should not be less than 8`},
	} {
		t.Run(c.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TopologyManagerPolicyAlphaOptions, true)
			m, err := NewManager(silent, c.topology, c.policy, c.scope, c.options)
			switch {
			case c.want != "":
				if err == nil || err.Error() != c.want {
					t.Fatalf("got  %v\nwant %s", err, c.want)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			scope := c.scope
			if c.policy == PolicyNone {
				scope = NoneTopologyScope
			}
			if m.Name() != scope || m.GetPolicy().Name() != c.policy {
				t.Errorf("scope %q, policy %q", m.Name(), m.GetPolicy().Name())
			}
		})
	}
}

func upTo(n int) (ids []int) {
	for id := range n {
		ids = append(ids, id)
	}
	return ids
}

// Our options are alpha: without the gate they are refused.
func TestAlphaOptionsNeedTheirGate(t *testing.T) {
	for _, option := range []string{NUMATieBreak, BestEffortLocality} {
		for _, on := range []bool{false, true} {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.TopologyManagerPolicyAlphaOptions, on)
			err := CheckPolicyOptionAvailable(option)
			want := fmt.Sprintf("topology manager policy alpha-level options not enabled, but option %q provided: it needs the feature gate TopologyManagerPolicyAlphaOptions", option)
			if on && err != nil || !on && (err == nil || err.Error() != want) {
				t.Errorf("%s, gate %t: %v", option, on, err)
			}
		}
	}
}

func newManager(t *testing.T, policy, scope string, providers ...HintProvider) Manager {
	t.Helper()
	m, err := NewManager(silent, nodes(0, 1), policy, scope, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		m.AddHintProvider(silent, p)
	}
	return m
}

// typed is a provider's error with a reason, as the CPU manager has some.
type typed struct{ error }

func (typed) Type() string { return "SMTAlignmentError" }

func TestRefusals(t *testing.T) {
	cpu := map[string][]TopologyHint{"cpu": {at(false, 0, 1)}}
	for _, c := range []struct {
		name          string
		scope         string
		podLevel      bool
		provider      *full
		reason, wants string
	}{
		{"container", "container", false, &full{plain: plain{hints: cpu}, explanation: "cpu: 6 requested, free CPUs: NUMA node 0: 4, NUMA node 1: 4"}, "TopologyAffinityError",
			`Resources cannot be allocated with Topology locality: container "app": cpu: not available on any single NUMA node; cpu: 6 requested, free CPUs: NUMA node 0: 4, NUMA node 1: 4 by app; policy single-numa-node, scope container; would help: policy best-effort`},
		{"pod", "pod", false, &full{plain: plain{hints: cpu}}, "TopologyAffinityError",
			"Resources cannot be allocated with Topology locality: cpu: not available on any single NUMA node; policy single-numa-node, scope pod; would help: policy best-effort"},
		{"pod-level in pod scope", "pod", true, &full{plain: plain{hints: cpu}, explanation: "cpu: 6 requested"}, "TopologyAffinityError",
			"Pod Scope pod with pod-level resources failed admission under pod-scope topology manager: cpu: not available on any single NUMA node; cpu: 6 requested; policy single-numa-node, scope pod; would help: policy best-effort"},
		{"pod-level in container scope", "container", true, &full{plain: plain{hints: cpu}}, "TopologyAffinityError",
			`Pod Scope pod with pod-level resources failed admission with a container-level topology manager: container "app": cpu: not available on any single NUMA node; policy single-numa-node, scope container; would help: policy best-effort`},
		{"allocation", "container", false, &full{plain: plain{fail: errors.New("no CPUs")}}, "UnexpectedAdmissionError",
			"Allocate failed due to no CPUs, which is unexpected"},
		{"allocation with a reason", "pod", false, &full{plain: plain{fail: typed{errors.New("half a core")}}}, "SMTAlignmentError",
			"half a core"},
		{"allocation that cannot be undone", "pod", false, &full{plain: plain{fail: typed{errors.New("half a core")}}, rollback: errors.New("disk")}, "SMTAlignmentError",
			"half a core"},
		{"commit", "container", false, &full{commit: errors.New("disk full")}, "UnexpectedAdmissionError",
			"Allocate failed due to the allocation could not be recorded: disk full, which is unexpected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResources, true)
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourceManagers, true)
			m := newManager(t, PolicySingleNumaNode, c.scope, c.provider)
			got := admit(m, pod("p", c.podLevel, "app"), lifecycle.AddOperation)
			if got.Admit || got.Reason != c.reason || got.Message != c.wants {
				t.Errorf("got  %s: %s\nwant %s: %s", got.Reason, got.Message, c.reason, c.wants)
			}
			if hint := m.GetAffinity(silent, "p", "app"); hint != (TopologyHint{}) {
				t.Errorf("the refused pod keeps the hint %s", show(hint))
			}
			if store := m.(manager).Scope.(*scope).hints; len(store.pods) != 0 {
				t.Errorf("the store has entries: %v", store.pods)
			}
			if last := c.provider.calls[len(c.provider.calls)-1]; last != "rollback p" {
				t.Errorf("the last call was %q", last)
			}
		})
	}
}

func TestPodLevelAllocation(t *testing.T) {
	for _, c := range []struct {
		gate, podLevel bool
		cpu, devices   string
	}{
		{true, true, "begin p, pod p add, commit p", "pod p add, container p/setup add, container p/app add"},
		{true, false, "begin p, container p/setup add, container p/app add, commit p", "container p/setup add, container p/app add"},
		{false, true, "begin p, container p/setup add, container p/app add, commit p", "container p/setup add, container p/app add"},
	} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResources, true)
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourceManagers, c.gate)
		devices := &plain{}
		cpu := &full{plain: plain{hints: map[string][]TopologyHint{"cpu": {at(true, 1)}}}}
		m := newManager(t, PolicyRestricted, PodTopologyScope, devices, cpu)
		if got := admit(m, pod("p", c.podLevel, "init:setup", "app"), lifecycle.AddOperation); !got.Admit {
			t.Fatalf("refused: %+v", got)
		}
		if got := strings.Join(cpu.calls, ", "); got != c.cpu {
			t.Errorf("gate %t, pod-level %t: cpu: %s", c.gate, c.podLevel, got)
		}
		if got := strings.Join(devices.calls, ", "); got != c.devices {
			t.Errorf("gate %t, pod-level %t: devices: %s", c.gate, c.podLevel, got)
		}
		for _, name := range []string{"setup", "app"} {
			if hint := m.GetAffinity(silent, "p", name); show(hint) != "{1} true" {
				t.Errorf("%s is at %s", name, show(hint))
			}
		}
	}
}

// A resize asks everybody but leaves hints and transactions alone.
func TestResizeKeepsHints(t *testing.T) {
	cpu := &full{plain: plain{hints: map[string][]TopologyHint{"cpu": {at(true, 1)}}}}
	m := newManager(t, PolicySingleNumaNode, ContainerTopologyScope, cpu)
	p := pod("p", false, "app")
	admit(m, p, lifecycle.AddOperation)
	cpu.hints, cpu.calls = nil, nil
	if got := admit(m, p, lifecycle.ResizeOperation); !got.Admit {
		t.Fatalf("refused: %+v", got)
	}
	if got := strings.Join(cpu.calls, ", "); got != "container p/app resize" {
		t.Errorf("calls: %s", got)
	}
	if hint := m.GetAffinity(silent, "p", "app"); show(hint) != "{1} true" {
		t.Errorf("the hint became %s", show(hint))
	}
}

// The kubelet starts again with a policy that the running pod does not meet.
func TestRunningPodIsNotRefused(t *testing.T) {
	cpu := &full{plain: plain{hints: map[string][]TopologyHint{"cpu": {at(true, 0, 1)}}}}
	for _, holds := range []bool{false, true} {
		cpu.holds = holds
		m := newManager(t, PolicySingleNumaNode, PodTopologyScope, cpu)
		if got := admit(m, pod("p", false, "app"), lifecycle.AddOperation); got.Admit != holds {
			t.Errorf("holds its allocation %t: %+v", holds, got)
		}
	}
}

// What a caller does to a hint must not reach the store.
func TestHintsAreCopies(t *testing.T) {
	m := newManager(t, PolicyRestricted, PodTopologyScope, &plain{hints: map[string][]TopologyHint{"cpu": {at(true, 1)}}})
	admit(m, pod("p", false, "app"), lifecycle.AddOperation)
	m.GetAffinity(silent, "p", "app").NUMANodeAffinity.Fill()
	if hint := m.GetAffinity(silent, "p", "app"); show(hint) != "{1} true" {
		t.Errorf("the hint became %s", show(hint))
	}
}

// The kubelet says that the old container of a name is removed before or after
// it starts a new one; the hint is that of both.
func TestHintsOutliveContainers(t *testing.T) {
	m := newManager(t, PolicyRestricted, PodTopologyScope, &plain{hints: map[string][]TopologyHint{"cpu": {at(true, 1)}}})
	p := pod("p", false, "app", "log")
	admit(m, p, lifecycle.AddOperation)
	for _, step := range []string{"+1", "+2", "-1", "-2", "-unknown", "+3", "+3", "-3"} {
		if id := step[1:]; step[0] == '+' {
			m.AddContainer(silent, p, &p.Spec.Containers[0], id)
		} else if err := m.RemoveContainer(silent, id); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"app", "log"} {
			if hint := m.GetAffinity(silent, "p", name); show(hint) != "{1} true" {
				t.Fatalf("after %s: %s is at %s", step, name, show(hint))
			}
		}
	}
}

// Hints of a pod go when the kubelet does not have it any more: it ended, or
// another handler refused it after this one.
func TestHintsLeaveWithThePod(t *testing.T) {
	m := newManager(t, PolicyRestricted, PodTopologyScope, &plain{hints: map[string][]TopologyHint{"cpu": {at(true, 1)}}})
	store := m.(manager).Scope.(*scope).hints
	running := pod("running", false, "app")
	admit(m, running, lifecycle.AddOperation)
	for i := range 100 {
		admit(m, pod(fmt.Sprint(i), false, "app"), lifecycle.AddOperation, running)
		if len(store.pods) != 2 {
			t.Fatalf("%d pods have hints, want the running one and the last one", len(store.pods))
		}
	}
	// A resize is an admission as well.
	admit(m, running, lifecycle.ResizeOperation)
	if len(store.pods) != 1 {
		t.Errorf("%d pods have hints, want the one that is left", len(store.pods))
	}
	if hint := m.GetAffinity(silent, "running", "app"); show(hint) != "{1} true" {
		t.Errorf("the running pod is at %s", show(hint))
	}
}

// Readers come from other goroutines than admissions; run with -race.
func TestConcurrentUse(t *testing.T) {
	m := newManager(t, PolicyRestricted, ContainerTopologyScope, &full{plain: plain{hints: map[string][]TopologyHint{"cpu": {at(true, 1)}}}})
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			for i := range 100 {
				p := pod(fmt.Sprint(g, i%5), false, "app")
				admit(m, p, lifecycle.AddOperation)
				m.AddContainer(silent, p, &p.Spec.Containers[0], fmt.Sprint(g, i))
				m.GetAffinity(silent, fmt.Sprint(3-g, i%5), "app")
				_ = m.RemoveContainer(silent, fmt.Sprint(g, i))
				m.AddHintProvider(silent, &plain{})
			}
		})
	}
	wait.Wait()
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{TopologyAffinityError{}, "Resources cannot be allocated with Topology locality"},
		{NewTopologyAffinityError(), "Resources cannot be allocated with Topology locality"},
		{&TopologyAffinityError{facts: "cpu: 8"}, "Resources cannot be allocated with Topology locality: cpu: 8"},
		{NewPodLevelTopologyAffinityError(""), "Pod Scope Resources cannot be allocated with Topology locality"},
		{NewPodLevelTopologyAffinityError("sentence"), "Pod Scope sentence"},
		{&PodLevelTopologyAffinityError{sentence: "Pod Scope sentence", facts: "cpu: 8"}, "Pod Scope sentence: cpu: 8"},
	} {
		var reason interface{ Type() string }
		if !errors.As(c.err, &reason) || reason.Type() != ErrorTopologyAffinity || c.err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", c.err, c.want)
		}
	}
}

func TestHints(t *testing.T) {
	any, anyNot := TopologyHint{Preferred: true}, TopologyHint{}
	ascending := []TopologyHint{at(true, 0), at(true, 1), at(true, 0, 1), any, at(false, 1), at(false, 0, 1), anyNot}
	for i, a := range ascending {
		for j, b := range ascending {
			if a.IsEqual(b) != (i == j) || a.LessThan(b) != (i < j) {
				t.Errorf("%s and %s: equal %t, less %t", show(a), show(b), a.IsEqual(b), a.LessThan(b))
			}
		}
		if back := HintFromNUMA(HintToNUMA(a)); !back.IsEqual(a) {
			t.Errorf("%s became %s", show(a), show(back))
		}
	}
}

func TestNUMAInfo(t *testing.T) {
	info, err := NewNUMAInfo([]cadvisorapi.Node{
		{Id: 8, Distances: []uint64{40, 10, 20}}, {Id: 0, Distances: []uint64{10, 40, 40}}, {Id: 10, Distances: []uint64{40, 20, 10}},
	}, PolicyOptions{PreferClosestNUMA: true})
	if err != nil {
		t.Fatal(err)
	}
	mask := func(ids ...int) bitmask.BitMask { return at(false, ids...).NUMANodeAffinity }
	for _, c := range []struct{ a, b, narrowest, closest bitmask.BitMask }{
		{mask(0, 8), mask(8, 10), mask(0, 8), mask(8, 10)},
		{mask(8, 10), mask(0), mask(0), mask(0)},
		{mask(0, 10), mask(0, 8), mask(0, 8), mask(0, 8)},
		{mask(10), mask(10), mask(10), mask(10)},
	} {
		if got := info.Narrowest(c.a, c.b); !got.IsEqual(c.narrowest) {
			t.Errorf("narrowest of %v and %v: %v", c.a, c.b, got)
		}
		if got := info.Closest(c.a, c.b); !got.IsEqual(c.closest) {
			t.Errorf("closest of %v and %v: %v", c.a, c.b, got)
		}
	}
	if got := info.NUMADistances.CalculateAverageFor(mask(8, 10)); got != 15 {
		t.Errorf("mean distance of 8 and 10 is %v", got)
	}
	if got := (NUMADistances{0: nil, 1: nil}).CalculateAverageFor(mask(0, 1)); got != 0 {
		t.Errorf("mean of unknown distances is %v", got)
	}
	if got := info.DefaultAffinityMask(); !got.IsEqual(mask(0, 8, 10)) {
		t.Errorf("default mask %v", got)
	}
}

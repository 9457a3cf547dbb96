// SPDX-License-Identifier: Apache-2.0

package topologymanager

import (
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// accountant is a provider that knows amounts, of two nodes with 8 CPUs each.
type accountant struct {
	full
	asked uint64
	free  [2]uint64
	cause string
}

func (a *accountant) ReportResources(klog.Logger, *v1.Pod, *v1.Container) numa.Report {
	if a.cause != "" {
		return numa.Report{Cause: a.cause}
	}
	d := numa.Demand{Resource: "cpu", Unit: "CPUs", Asked: a.asked}
	for id, free := range a.free {
		d.Nodes = append(d.Nodes, numa.Supply{Node: id, Free: free, Allocatable: 8})
	}
	return numa.Report{Demands: []numa.Demand{d}}
}

func (a *accountant) ReportUsage(klog.Logger, string) (usage []numa.NodeUsage) {
	for id, free := range a.free {
		usage = append(usage, numa.NodeUsage{Node: id, Resource: "cpu", Allocatable: 8, Free: free})
	}
	return usage
}

// A refusal is one line: the kubelet's sentence, what was asked and what there
// is, the narrowest affinity, the policy, and what would help. Of a provider that
// tries nothing it is not known whether less would do.
func TestRefusalSaysWhy(t *testing.T) {
	cpu := &accountant{full: full{plain: plain{hints: map[string][]TopologyHint{"cpu": {at(false, 0, 1)}}}, explanation: "not asked"}, asked: 6, free: [2]uint64{4, 5}}
	m := newManager(t, PolicySingleNumaNode, PodTopologyScope, cpu)
	got := admit(m, pod("p", false, "app"), lifecycle.AddOperation)
	want := "Resources cannot be allocated with Topology locality: cpu: not available on any single NUMA node (asked for 6 CPUs; free: NUMA node 0: 4 of 8; NUMA node 1: 5 of 8); " +
		"on an idle machine cpu would fit 1 NUMA node, such as 0; policy single-numa-node, scope pod; would help: policy best-effort"
	if got.Reason != ErrorTopologyAffinity || got.Message != want {
		t.Errorf("got  %s: %s\nwant %s", got.Reason, got.Message, want)
	}
}

// A pod that is itself at fault learns that from every policy that reads hints.
func TestInvalidPodLearnsTheCause(t *testing.T) {
	turnOn(t, features.PodLevelResources, features.PodLevelResourceManagers)
	for _, policy := range []string{PolicyRestricted, PolicySingleNumaNode} {
		cpu := &accountant{full: full{plain: plain{hints: map[string][]TopologyHint{"cpu": {}}}}, cause: "the slices leave nothing for the sidecar"}
		memory := &plain{hints: map[string][]TopologyHint{"memory": {at(true, 0)}}}
		m := newManager(t, policy, PodTopologyScope, cpu, memory)
		got := admit(m, pod("p", true, "app"), lifecycle.AddOperation)
		want := "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager: the slices leave nothing for the sidecar"
		if got.Reason != ErrorTopologyAffinity || got.Message != want {
			t.Errorf("%s: got  %s: %s\nwant %s", policy, got.Reason, got.Message, want)
		}
	}
}

func TestTieBreakReadsUsage(t *testing.T) {
	turnOn(t, features.TopologyManagerPolicyAlphaOptions)
	for value, want := range map[string]string{"lowest": "{0} true", "most-allocated": "{1} true", "least-allocated": "{0} true"} {
		cpu := &accountant{full: full{plain: plain{hints: map[string][]TopologyHint{"cpu": {at(true, 0), at(true, 1)}}}}, free: [2]uint64{7, 3}}
		m, err := NewManager(silent, nodes(0, 1), PolicyRestricted, ContainerTopologyScope, map[string]string{NUMATieBreak: value})
		if err != nil {
			t.Fatal(err)
		}
		m.AddHintProvider(silent, cpu)
		admit(m, pod("p", false, "app"), lifecycle.AddOperation)
		if hint := m.GetAffinity(silent, "p", "app"); show(hint) != want {
			t.Errorf("%s: at %s, want %s", value, show(hint), want)
		}
	}
}

func turnOn(t *testing.T, gates ...featuregate.Feature) {
	for _, gate := range gates {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, gate, true)
	}
}

// Both histograms count every admission; ours has buckets for microseconds.
func TestAdmissionDuration(t *testing.T) {
	count := func() (samples uint64, lowest float64) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "kubelet_topology_manager_admission_duration_seconds" {
				h := family.GetMetric()[0].GetHistogram()
				return h.GetSampleCount(), h.GetBucket()[0].GetUpperBound()
			}
		}
		return 0, 0
	}
	m := newManager(t, PolicyRestricted, PodTopologyScope)
	newManager(t, PolicyRestricted, PodTopologyScope) // registers once
	before, _ := count()
	admit(m, pod("p", false, "app"), lifecycle.AddOperation)
	after, lowest := count()
	if after != before+1 || lowest > 1e-6 {
		t.Errorf("%d samples more, want 1; the lowest bucket ends at %v s", after-before, lowest)
	}
}

// A merge in the steady state allocates its result, and at most one thing more.
func TestMergeAllocations(t *testing.T) {
	info := &NUMAInfo{Nodes: upTo(8)}
	for name, apart := range map[string]bool{"agreed": false, "apart": true} {
		var hints []map[string][]TopologyHint
		for i, resource := range []string{"cpu", "memory", "example.com/gpu", "example.com/nic"} {
			home := 7
			if apart {
				home = i
			}
			list := []TopologyHint{at(true, home)}
			for a := range 8 {
				for b := range a {
					list = append(list, at(false, a, b))
				}
			}
			hints = append(hints, map[string][]TopologyHint{resource: list})
		}
		for _, policy := range []Policy{NewBestEffortPolicy(info, PolicyOptions{}), NewRestrictedPolicy(info, PolicyOptions{}), NewSingleNumaNodePolicy(info, PolicyOptions{})} {
			_, admitted := policy.Merge(silent, hints)
			if !admitted {
				continue // what a refusal has to say is no part of the merge
			}
			// The collector and the race detector empty pools now and then.
			least := math.Inf(1)
			for range 20 {
				least = min(least, testing.AllocsPerRun(1, func() { policy.Merge(silent, hints) }))
			}
			if least > 2 {
				t.Errorf("%s, %s: %v allocations", policy.Name(), name, least)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	theirs "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	ours "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// provider answers from a plan, the same one for both sides, and notes what is
// called. H is the side's hint.
type provider[H any] struct {
	name     string
	plan     map[string]answer // by container name, "" for the pod
	fails    string            // container for which Allocate fails
	convert  func(hint) H
	affinity func(container string) string
	calls    *[]string
}

func (p *provider[H]) note(format string, args ...any) {
	*p.calls = append(*p.calls, p.name+" "+fmt.Sprintf(format, args...))
}

func (p *provider[H]) GetTopologyHints(_ klog.Logger, _ *v1.Pod, c *v1.Container, op lifecycle.Operation) map[string][]H {
	p.note("hints %s %s", c.Name, op)
	return in(p.plan[c.Name], p.convert)
}

func (p *provider[H]) GetPodTopologyHints(_ klog.Logger, _ *v1.Pod, op lifecycle.Operation) map[string][]H {
	p.note("pod hints %s", op)
	return in(p.plan[""], p.convert)
}

func (p *provider[H]) AllocatePod(klog.Logger, *v1.Pod, lifecycle.Operation) error {
	p.note("allocate pod")
	return nil
}

func (p *provider[H]) Allocate(_ context.Context, _ *v1.Pod, c *v1.Container, op lifecycle.Operation) error {
	p.note("allocate %s %s at %s", c.Name, op, p.affinity(c.Name))
	if p.fails == c.Name {
		return errors.New(p.name + " has no more")
	}
	return nil
}

// sameCalls compares the calls of providers. After a refusal ours may ask for hints of
// more containers, to find out what would help.
func sameCalls(ours, theirs []string, admitted bool) bool {
	if admitted || len(ours) < len(theirs) {
		return slices.Equal(ours, theirs)
	}
	more := ours[len(theirs):]
	return slices.Equal(ours[:len(theirs)], theirs) && !slices.ContainsFunc(more, func(call string) bool { return !strings.Contains(call, " hints ") })
}

// TestAdmissionsAlike admits pods without pod-level resources and compares all
// calls, what providers find in the Store while they allocate, the result and,
// for admitted pods, the hints afterwards. Left out: the hints of refused pods,
// which upstream keeps, and the facts behind its sentence.
func TestAdmissionsAlike(t *testing.T) {
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	r := rand.New(rand.NewPCG(13, 14))
	admitted := map[string]int{}
	for range 6_000 {
		w := randomWorld(r)
		var topology []cadvisorapi.Node
		for _, id := range w.ids {
			topology = append(topology, cadvisorapi.Node{Id: id, Distances: w.rows[id]})
		}
		options := map[string]string{ours.PreferClosestNUMANodes: fmt.Sprint(w.closest)}
		policy := []string{"none", "best-effort", "restricted", "single-numa-node"}[r.IntN(4)]
		scope := []string{"container", "pod"}[r.IntN(2)]

		our, err := ours.NewManager(klog.Logger{}, topology, policy, scope, options)
		if err != nil {
			t.Fatal(err)
		}
		their, err := theirs.NewManager(klog.Logger{}, topology, policy, scope, options)
		if err != nil {
			t.Fatal(err)
		}

		pod := &v1.Pod{}
		pod.UID = types.UID("uid")
		names := []string{"a", "b", "c"}[:1+r.IntN(3)]
		inits := r.IntN(len(names))
		for i, name := range names {
			if i < inits {
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: name})
			} else {
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name})
			}
		}
		var ourCalls, theirCalls []string
		ourAffinity := func(c string) string { return textOfOurs(our.GetAffinity(klog.Logger{}, "uid", c)) }
		theirAffinity := func(c string) string { return textOfTheirs(their.GetAffinity(klog.Logger{}, "uid", c)) }
		for _, name := range []string{"devices", "cpu", "memory"}[:r.IntN(4)] {
			plan := map[string]answer{}
			for _, c := range append([]string{""}, names...) {
				plan[c] = w.randomAnswer(r, name)
			}
			fails := ""
			if r.IntN(8) == 0 {
				fails = names[r.IntN(len(names))]
			}
			our.AddHintProvider(klog.Logger{}, &provider[ours.TopologyHint]{name, plan, fails, hint.ours, ourAffinity, &ourCalls})
			their.AddHintProvider(klog.Logger{}, &provider[theirs.TopologyHint]{name, plan, fails, hint.theirs, theirAffinity, &theirCalls})
		}

		attrs := &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation}
		got, want := our.Admit(ctx, attrs), their.Admit(ctx, attrs)
		what := fmt.Sprintf("policy %s, scope %s, world %+v\nours %+v %q\nupstream's %+v %q", policy, scope, w, got, ourCalls, want, theirCalls)
		if got.Admit != want.Admit || got.Reason != want.Reason || !strings.HasPrefix(got.Message, want.Message) || !sameCalls(ourCalls, theirCalls, got.Admit) {
			t.Fatal(what)
		}
		if !got.Admit {
			continue
		}
		admitted[policy+" "+scope]++
		for _, name := range names {
			if ourAffinity(name) != theirAffinity(name) {
				t.Fatalf("%s is at %s, upstream's at %s; %s", name, ourAffinity(name), theirAffinity(name), what)
			}
		}
	}
	t.Logf("admitted: %v", admitted)
	if len(admitted) != 8 {
		t.Errorf("some combinations admitted nothing: %v", admitted)
	}
}

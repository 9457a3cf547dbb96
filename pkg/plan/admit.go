// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Verdict is what the kubelet says to a pod.
type Verdict struct {
	Admitted bool
	// Reason and Message are those in the status of a pod that is refused, and
	// Refusal is the error that they come from.
	Reason, Message string
	Refusal         error
	// Steps are the affinities that were decided on, in their order, if the node's
	// settings ask for them.
	Steps []Step
}

// Step is one decision about an affinity.
type Step struct {
	// Container is "" for the pod as a whole.
	Container string
	// Resources are the hints of each resource.
	Resources []numa.Resource
	// Merged is the affinity that the hints led to, and Admit whether the policy
	// accepts it. A pod that is on record keeps its place if not.
	Merged numa.Hint
	Admit  bool
	// RunnerUp is what came next, if Next is set.
	RunnerUp numa.Hint
	Next     bool
}

// Admit decides about a pod, as the kubelet does when it is told of it, and returns
// the node that has it, or the same node if it is refused. The API server's
// defaults must be in the pod, and its UID must be its own.
func (n Node) Admit(pod *v1.Pod) (Node, Verdict) {
	a := newAdmission(n, pod)
	err := placement.Admit(a.request(), n.Scope, tracer{n.Policy, a}, []placement.Provider{cpuProvider{a}, memoryProvider{a}, room{a}}, a)
	v := Verdict{Admitted: err == nil, Refusal: err, Steps: a.steps}
	if err != nil {
		v.Reason, v.Message = placement.Status(err)
		return n, v
	}
	// The kubelet asks this afterwards, and gives back what a pod had that it
	// refuses then.
	wants, ports := n.Requests(pod), hostPorts(pod)
	before := n
	if n.running[a.uid] {
		before.requested = before.requested.minus(before.onRecord(a.uid))
	}
	err = before.fits(wants)
	if err == nil {
		err = before.portsFree(ports)
	}
	if err != nil {
		v.Admitted, v.Refusal = false, err
		v.Reason, v.Message = placement.Status(err)
		return n, v
	}
	next := before
	next.cpus, next.memory = a.cpus, a.memory
	next.requested, next.ports = before.requested.plus(wants), before.withPorts(ports)
	return next, v
}

// Know tells what pods that are on record ask for, which decides where others may
// lie beside them.
func (n Node) Know(pods []*v1.Pod) Node {
	records := n.memory.Records()
	for _, pod := range pods {
		if asked, err := n.asksMemory(pod); err == nil && asked.Managed && !records.Knows(asked.UID) {
			records = records.Know(asked)
		}
	}
	n.memory = memplan.NewHost(n.Memory, records)
	return n
}

// facts are those of FromSpec.
func (n Node) facts(pod *v1.Pod) podplan.Facts {
	return podplan.Facts{
		Guaranteed: QOSClass(pod, n.PodLevelResources) == v1.PodQOSGuaranteed,
		PodLevel:   n.PodLevelResources && n.PodLevelManagers,
	}
}

func (n Node) asksCPUs(pod *v1.Pod) (podplan.Pod, error) { return podplan.FromSpec(pod, n.facts(pod)) }

func (n Node) asksMemory(pod *v1.Pod) (podplan.Pod, error) {
	return memplan.FromSpec(pod, n.facts(pod))
}

// admission is the pod and what is staged for it.
type admission struct {
	node Node
	pod  *v1.Pod
	uid  string
	// What the pod asks for, as each manager reads it.
	cpuAsked, memoryAsked podplan.Pod
	cpuErr, memoryErr     error
	// cpus and memory are what all pods have, with what is staged.
	cpus   cpuplan.State
	memory memplan.Host

	affinities map[string]numa.Hint
	steps      []Step
	// at is what hints were last asked for.
	at string
}

func newAdmission(n Node, pod *v1.Pod) *admission {
	a := &admission{node: n, pod: pod, uid: string(pod.UID), cpus: n.cpus, memory: n.memory, affinities: map[string]numa.Hint{}}
	a.cpuAsked, a.cpuErr = n.asksCPUs(pod)
	a.memoryAsked, a.memoryErr = n.asksMemory(pod)
	return a
}

func (a *admission) request() placement.Request {
	names := func(containers []v1.Container) (names []string) {
		for _, c := range containers {
			names = append(names, c.Name)
		}
		return names
	}
	return placement.Request{
		PodUID:         a.uid,
		InitContainers: names(a.pod.Spec.InitContainers),
		Containers:     names(a.pod.Spec.Containers),
		PodLevel:       a.node.PodLevelManagers && resourcehelper.IsPodLevelResourcesSet(a.pod),
	}
}

// ran reports whether the pod was there from the beginning. Such a pod runs, and
// goes on with whatever it has.
func (a *admission) ran() bool { return a.node.running[a.uid] }

// affinity is that of the container; without a decision it may be anywhere.
func (a *admission) affinity(container string) numa.Hint {
	if hint, ok := a.affinities[container]; ok {
		return hint
	}
	return numa.Hint{Any: true}
}

// podAffinity is that of the pod, which all its containers have.
func (a *admission) podAffinity() numa.Hint {
	for c := range Containers(a.pod) {
		return a.affinity(c.Name)
	}
	return numa.Hint{Any: true}
}

// Affinity, Record and Forget implement placement.Recorder.
func (a *admission) Affinity(container string) (numa.Hint, bool) {
	hint, ok := a.affinities[container]
	return hint, ok
}

func (a *admission) Record(container string, affinity numa.Hint) { a.affinities[container] = affinity }

func (a *admission) Forget(container string) { delete(a.affinities, container) }

// tracer is the policy, and notes what it decides.
type tracer struct {
	placement.Policy
	a *admission
}

func (t tracer) Decide(resources []numa.Resource, usage func() *numa.Usage) placement.Decision {
	d := t.Policy.Decide(resources, usage)
	if t.a.node.Explain {
		step := Step{Container: t.a.at, Resources: resources, Merged: d.Affinity, Admit: d.Admit}
		step.RunnerUp, step.Next = t.Policy.RunnerUp(resources, usage, d)
		t.a.steps = append(t.a.steps, step)
	}
	return d
}

var errNoContainer = errors.New("the container is not part of the pod")

// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/machine"
)

// Given is what a pod has.
type Given struct {
	// CPUs and Memory are the pod's as a whole, if it was allocated so.
	CPUs   cpuplan.Set
	Memory []memplan.Block
	// Quota is that of the pod's cgroup.
	Quota      Quota
	Containers []GivenContainer
}

// GivenContainer is what a container runs on.
type GivenContainer struct {
	Name string
	Kind podplan.Kind
	// CPUs are those that it may use: its own, its pod's or the node shared pool, as
	// CPUIsolation says.
	CPUIsolation, MemoryIsolation podplan.Isolation
	CPUs                          cpuplan.Set
	// Nodes are the NUMA nodes that its memory is bound to; none for anywhere.
	Nodes  numa.Set
	Memory []memplan.Block
	// Quota is that of the container's cgroup.
	Quota Quota
	// Aligned is about CPUs that are the container's or its pod's.
	Aligned Alignment
	// Notes say what the container does not get although it is written as if it
	// were to.
	Notes []string
}

// Alignment says whether CPUs keep to units of the machine.
type Alignment struct {
	// SMT is set if no core has a CPU of theirs and one that is not, LLC if all
	// share one last-level cache, and NUMA if all are on one NUMA node and the memory
	// is there, too.
	SMT, LLC, NUMA bool
	// Caches is set if the machine tells them. Applies is unset in the node shared
	// pool.
	Caches, Applies bool
}

// Given is what the pod has on the node.
func (n Node) Given(pod *v1.Pod) Given {
	uid := string(pod.UID)
	cpus, memory := n.cpus.Record(uid), n.memory.Records().Pod(uid)
	asked, _ := n.asksCPUs(pod)
	asksMemory, _ := n.asksMemory(pod)
	budget := n.PodLevelManagers && resourcehelper.IsPodLevelResourcesSet(pod)
	isolation := map[string]podplan.Isolation{}
	for c := range Containers(pod) {
		_, recorded := cpus.Containers[c.Name]
		isolation[c.Name] = podplan.IsolationOf(recorded, budget || !cpus.Pod.IsEmpty(), podplan.HasCPUSlice(c))
	}
	q, known := n.quotas(pod, isolation)
	g := Given{CPUs: cpus.Pod, Memory: memory.Pod, Quota: n.podQuota(pod, isolation, q, known)}
	for c := range Containers(pod) {
		is, _ := asked.Container(c.Name)
		given := GivenContainer{
			Name: c.Name, Kind: is.Kind,
			CPUIsolation:    isolation[c.Name],
			MemoryIsolation: podplan.IsolationOf(len(memory.Containers[c.Name]) > 0, budget || memory.Whole(), podplan.HasMemorySlice(c)),
			CPUs:            n.SharedCPUs(),
			Nodes:           memory.BoundTo(asksMemory, c.Name),
			Memory:          memory.Containers[c.Name],
			Quota:           n.containerQuota(pod, c, isolation[c.Name] == podplan.IsolatedContainer, q, known),
			Notes:           n.notes(pod, asked, is, cpus, memory),
		}
		if given.CPUIsolation != podplan.IsolatedHost {
			given.CPUs = cpus.Containers[c.Name]
			given.Aligned = n.alignment(given.CPUs, given.Nodes)
		}
		g.Containers = append(g.Containers, given)
	}
	return g
}

// notes say why the container gets nothing for itself, if one could think that it
// does.
func (n Node) notes(pod *v1.Pod, asked podplan.Pod, c podplan.Container, cpus cpuplan.Record, memory memplan.PodRecord) []string {
	var notes []string
	say := func(what string, reason podplan.Ineligibility) {
		text := fmt.Sprintf("gets no %s of its own although its request equals its limit: %s", what, reason.Explain())
		if reason == podplan.PodNotGuaranteed {
			text += unequal(pod.Spec.Resources)
		}
		notes = append(notes, text)
	}
	noCPUs, lacksCPUs := asked.IneligibleForCPUs(c, n.whole())
	noMemory, lacksMemory := asked.IneligibleForMemory(c)
	lacksCPUs = lacksCPUs && n.CPUs != nil && cpus.Containers[c.Name].IsEmpty()
	lacksMemory = lacksMemory && n.StaticMemory && len(memory.Containers[c.Name]) == 0
	switch {
	case lacksCPUs && lacksMemory && noCPUs == noMemory:
		say("CPUs and memory", noCPUs)
	default:
		if lacksCPUs {
			say("CPUs", noCPUs)
		}
		if lacksMemory {
			say("memory", noMemory)
		}
	}
	if n.CPUs != nil && asked.Budget != nil && asked.Managed && c.Guaranteed && c.MilliCPU%1000 != 0 {
		notes = append(notes, fmt.Sprintf("gets no CPUs of its own although its request equals its limit: %dm are not a whole number of CPUs", c.MilliCPU))
	}
	return notes
}

// unequal says of which resources the budget's request is not its limit.
func unequal(budget *v1.ResourceRequirements) string {
	var texts []string
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, requested := budget.Requests[name]
		limit, limited := budget.Limits[name]
		switch {
		case requested && limited && request.Cmp(limit) != 0:
			texts = append(texts, fmt.Sprintf("%s %s of at most %s", name, request.String(), limit.String()))
		case requested && !limited:
			texts = append(texts, fmt.Sprintf("%s has no limit", name))
		case !requested:
			texts = append(texts, fmt.Sprintf("%s has no request", name))
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

func (n Node) alignment(cpus cpuplan.Set, memory numa.Set) Alignment {
	nodes := n.Topology.NodesOf(cpus)
	a := Alignment{
		Applies: true,
		SMT:     n.Topology.WholeCores(cpus).Equals(cpus),
		NUMA:    nodes.Size() == 1 && memory.IsSubsetOf(nodes),
	}
	caches := map[int]bool{}
	for _, c := range n.Machine.CPUs {
		if cpus.Contains(c.ID) {
			caches[c.Cache] = true
		}
	}
	a.Caches = !caches[machine.NoCache]
	a.LLC = a.Caches && len(caches) == 1
	return a
}

// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

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
		}
		given.Notes = n.notes(asked, is, given)
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
func (n Node) notes(asked podplan.Pod, c podplan.Container, given GivenContainer) []string {
	if asked.Budget == nil {
		return nil
	}
	const equal = ", although the requests equal the limits: "
	cpu, memory := "", ""
	if n.CPUs != nil && given.CPUIsolation != podplan.IsolatedContainer {
		reason, found := asked.IneligibleForCPUs(c, n.whole())
		switch {
		case found:
			cpu = reason.Explain(*asked.Budget)
		case asked.Managed && c.Guaranteed && c.MilliCPU > 1000 && c.MilliCPU%1000 != 0:
			cpu = fmt.Sprintf("%dm is not a whole number of CPUs", c.MilliCPU)
		}
	}
	if reason, found := asked.IneligibleForMemory(c); found && n.StaticMemory && given.MemoryIsolation != podplan.IsolatedContainer {
		memory = reason.Explain(*asked.Budget)
	}
	switch {
	case cpu == "" && memory == "":
		return nil
	case cpu == memory:
		return []string{"no exclusive CPUs and no exclusive memory" + equal + cpu}
	}
	var notes []string
	if cpu != "" {
		notes = append(notes, "no exclusive CPUs, although the CPU request equals the limit: "+cpu)
	}
	if memory != "" {
		notes = append(notes, "no exclusive memory"+equal+memory)
	}
	return notes
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

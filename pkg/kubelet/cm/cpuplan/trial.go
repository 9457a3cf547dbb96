// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"maps"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Trial is the CPU manager in an admission that is only tried: nothing of it is
// ever recorded.
type Trial struct {
	node     *Node // nil for a policy that gives nothing
	state    State
	pod      podplan.Pod
	affinity func(container string) numa.Hint
}

// NewTrial begins one for a pod of which nothing is on record, with what would be
// different. It fails with numa.ErrImpossible for a pod that is at fault itself then,
// or if no pods have as much there as should become free.
func NewTrial(n *Node, s State, pod podplan.Pod, change numa.Change, affinity func(container string) numa.Hint) (*Trial, error) {
	t := &Trial{node: n, state: s.Without(pod.UID), pod: pod, affinity: affinity}
	if n == nil {
		return t, nil
	}
	step := uint64(1)
	if n.options.FullPCPUsOnly {
		step = uint64(max(1, n.topology.ThreadsPerCore()))
	}
	ok := true
	if count, asked := change.Ask[ResourceName]; asked {
		t.pod, ok = pod.Asking(change.Container, ResourceName, count, step)
		// Containers without whole cores are at fault, however little is asked for.
		for _, c := range pod.Containers {
			ok = ok && uint64(pod.ExclusiveCPUs(c))%step == 0
		}
	}
	if count := change.Free[ResourceName]; ok && count > 0 {
		t.state, ok = n.freed(t.state, change.Nodes, int(count))
	}
	if !ok {
		return nil, numa.ErrImpossible
	}
	return t, nil
}

// freed is the state in which pods hold that many CPUs of the nodes less.
func (n *Node) freed(s State, nodes numa.Set, count int) (State, bool) {
	held := n.Allocatable().Intersection(s.Assigned()).Intersection(n.topology.OnNodes(nodes))
	if n.options.FullPCPUsOnly {
		held = n.topology.WholeCores(held)
	}
	if held.Size() < count {
		return s, false
	}
	// Threads of a core have numbers far apart on many machines.
	var free Set
	for _, id := range held.List() {
		if free.Size() >= count {
			break
		}
		one := NewSet(id)
		if n.options.FullPCPUsOnly {
			one = one.Union(n.topology.Siblings(one)).Intersection(held)
		}
		free = free.Union(one)
	}
	left, rest := maps.Clone(s.records), free
	for uid, r := range s.records {
		if rest.IsEmpty() {
			break
		}
		cpus := r.CPUs()
		if cpus.Intersection(rest).IsEmpty() {
			continue
		}
		rest = rest.Difference(cpus)
		if left[uid] = r.Only(cpus.Difference(free)); left[uid].IsEmpty() {
			delete(left, uid)
		}
	}
	return State{left, s.assigned.Difference(free)}, true
}

// Name, PodHints and the others make it a placement.Provider that serves pods as a
// whole.
func (t *Trial) Name() string { return "the CPU manager" }

func (t *Trial) PodHints() []numa.Resource {
	if t.node == nil {
		return nil
	}
	return list(t.node.PodHints(t.state, t.pod))
}

func (t *Trial) ContainerHints(container string) []numa.Resource {
	c, ok := t.pod.Container(container)
	if t.node == nil || !ok {
		return nil
	}
	return list(t.node.ContainerHints(t.state, t.pod, c))
}

func list(r numa.Resource, ok bool) []numa.Resource {
	if !ok {
		return nil
	}
	return []numa.Resource{r}
}

func (t *Trial) AllocatePod() error {
	if t.node == nil || len(t.pod.Containers) == 0 {
		return nil
	}
	return t.take(t.node.PlanPod(t.state, t.pod, t.affinity(t.pod.Containers[0].Name)))
}

func (t *Trial) AllocateContainer(container string) error {
	c, ok := t.pod.Container(container)
	if t.node == nil || !ok {
		return nil
	}
	return t.take(t.node.PlanContainer(t.state, t.pod, c, t.affinity(container)))
}

func (t *Trial) take(record Record, err error) error {
	if err == nil {
		t.state = t.state.With(t.pod.UID, record)
	}
	return err
}

func (t *Trial) AllocatesPods() bool { return true }

// Report knows nothing more than that it has no need to be explained.
func (t *Trial) Report(string) (numa.Report, bool) { return numa.Report{}, true }

func (t *Trial) Usage() []numa.NodeUsage {
	if t.node == nil {
		return nil
	}
	return t.node.Usage(t.state)
}

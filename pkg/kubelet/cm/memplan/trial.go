// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Trial is the memory manager in an admission that is only tried: nothing of it is
// ever recorded.
type Trial struct {
	static   bool // unset for a policy that gives nothing
	host     Host
	pod      podplan.Pod
	affinity func(container string) numa.Hint
}

// NewTrial begins one for a pod of which nothing is on record, with what would be
// different. It fails with numa.ErrImpossible for a pod that is at fault itself then,
// or if no pods have as much there as should become free.
func NewTrial(static bool, h Host, pod podplan.Pod, change numa.Change, affinity func(container string) numa.Hint) (*Trial, error) {
	t := &Trial{static: static, host: h, pod: pod, affinity: affinity}
	if !static {
		return t, nil
	}
	records, ok := h.records.With(pod.UID, PodRecord{}), true
	for _, name := range sortedNames(change.Ask) {
		if name == "cpu" || !ok {
			continue
		}
		t.pod, ok = t.pod.Asking(change.Container, name, change.Ask[name], step(name))
	}
	for _, name := range sortedNames(change.Free) {
		if name == "cpu" || !ok {
			continue
		}
		records, ok = records.freed(change.Nodes, name, change.Free[name])
	}
	if !ok {
		return nil, numa.ErrImpossible
	}
	t.host = NewHost(h.machine, records)
	return t, nil
}

// step is in what amounts a resource is asked for: pages, or for ordinary memory
// what people write.
func step(name string) uint64 {
	if size, ok := strings.CutPrefix(name, v1.ResourceHugePagesPrefix); ok {
		if q, err := resource.ParseQuantity(size); err == nil && q.Value() > 0 {
			return uint64(q.Value())
		}
	}
	return 1 << 20
}

// freed is the records in which pods have that much less on the nodes, out of what
// lies nowhere else.
func (r Records) freed(nodes numa.Set, name string, size uint64) (Records, bool) {
	shrink := func(blocks []Block) []Block {
		blocks = slices.Clone(blocks)
		for i, b := range blocks {
			if b.Resource == name && b.Nodes.IsSubsetOf(nodes) {
				taken := min(size, b.Size)
				blocks[i].Size -= taken
				size -= taken
			}
		}
		return blocks
	}
	pods := maps.Clone(r.pods)
	for uid, pod := range r.All() {
		if size == 0 {
			break
		}
		if pod.Whole() {
			pod.Pod = shrink(pod.Pod)
		} else {
			pod.Containers = maps.Clone(pod.Containers)
			for _, name := range slices.Sorted(maps.Keys(pod.Containers)) {
				pod.Containers[name] = shrink(pod.Containers[name])
			}
		}
		pods[uid] = pod
	}
	return Records{pods: pods, uids: r.uids}, size == 0
}

// Name, PodHints and the others make it a placement.Provider that serves pods as a
// whole.
func (t *Trial) Name() string { return "the memory manager" }

func (t *Trial) PodHints() []numa.Resource {
	if !t.static {
		return nil
	}
	return t.host.PodHints(t.pod)
}

func (t *Trial) ContainerHints(container string) []numa.Resource {
	if !t.static {
		return nil
	}
	return t.host.ContainerHints(t.pod, container)
}

// AllocatePod leaves out what lies near which CPUs: it never decides whether
// there is room.
func (t *Trial) AllocatePod() error {
	if !t.static || len(t.pod.Containers) == 0 {
		return nil
	}
	return t.take(t.host.PlanPod(t.pod, t.affinity(t.pod.Containers[0].Name), nil))
}

func (t *Trial) AllocateContainer(container string) error {
	if !t.static {
		return nil
	}
	return t.take(t.host.PlanContainer(t.pod, container, t.affinity(container)))
}

func (t *Trial) take(record PodRecord, err error) error {
	if err == nil && !record.Equal(t.host.records.Pod(t.pod.UID)) {
		t.host = t.host.With(t.pod.UID, record)
	}
	return err
}

func (t *Trial) AllocatesPods() bool { return true }

// Report knows nothing more than that it has no need to be explained.
func (t *Trial) Report(string) (numa.Report, bool) { return numa.Report{}, true }

func (t *Trial) Usage() []numa.NodeUsage {
	if !t.static {
		return nil
	}
	return t.host.Usage()
}

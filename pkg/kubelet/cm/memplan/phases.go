// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"maps"
	"reflect"
	"slices"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// Know returns the records with what the pod asks for noted beside what it
// has. Which of its containers run at the same time is not in a record; as long
// as it is not known, claims inside the pod are made as if all did.
func (r Records) Know(pod podplan.Pod) Records {
	record, ok := r.pods[pod.UID]
	if !ok || record.asked != nil {
		return r
	}
	record.asked = &pod
	pods := maps.Clone(r.pods)
	pods[pod.UID] = record
	return Records{pods: pods, uids: r.uids}
}

// Learn is Know for a pod that is admitted: what it asks for then counts, even if
// something else was noted before. The kubelet lists pods with a resize that they
// ask for, and admits them without it. The answer says whether that was news.
func (r Records) Learn(pod podplan.Pod) (Records, bool) {
	record, ok := r.pods[pod.UID]
	if !ok || record.asked != nil && reflect.DeepEqual(*record.asked, pod) {
		return r, false
	}
	record.asked = nil
	pods := maps.Clone(r.pods)
	pods[pod.UID] = record
	return Records{pods: pods, uids: r.uids}.Know(pod), true
}

// Knows reports whether it is known what the pod asks for, or nothing is
// recorded of it.
func (r Records) Knows(uid string) bool {
	record, ok := r.pods[uid]
	return !ok || record.asked != nil
}

// without returns the record without the containers' blocks.
func (p PodRecord) without(containers []string) PodRecord {
	return p.keep(func(name string) bool { return !slices.Contains(containers, name) })
}

// hasClaimsOfItsOwn reports whether the pod has parts that need more than that
// its charges are met: parts on a part of its nodes, or init containers whose
// memory later containers on more nodes have taken over.
func (p PodRecord) hasClaimsOfItsOwn() bool {
	nodes := p.Nodes()
	for _, blocks := range p.Containers {
		for _, b := range blocks {
			if b.Nodes != nodes {
				return true
			}
		}
	}
	return false
}

// claims are those of the pod's containers, for each phase of its life. The
// others are what all other pods are charged with.
func (p PodRecord) claims(resource string, others []charge) []claim {
	if p.asked == nil {
		return p.blindClaims(resource, others)
	}
	var claims []claim
	for _, phase := range p.phases(resource) {
		for _, c := range joined(phase) {
			claims = append(claims, claim{c.nodes, c.size, append(except(joined(phase), c), others...)})
		}
	}
	return claims
}

// blindClaims are those that hold whatever the containers are: beside each part
// of a pod that was allocated as a whole there can be all the rest of it,
// anywhere on the pod's nodes.
func (p PodRecord) blindClaims(resource string, others []charge) []claim {
	if !p.Whole() {
		return nil
	}
	budget, nodes := uint64(0), p.Nodes()
	for _, b := range p.Pod {
		if b.Resource == resource {
			budget = add(budget, b.Size)
		}
	}
	var claims []claim
	for _, name := range slices.Sorted(maps.Keys(p.Containers)) {
		for _, b := range p.Containers[name] {
			if b.Resource == resource && b.Nodes != nodes && b.Size > 0 {
				rest := charge{nodes, budget - min(budget, b.Size)}
				claims = append(claims, claim{b.Nodes, b.Size, append([]charge{rest}, others...)})
			}
		}
	}
	return claims
}

// phases is what the pod's containers have of a resource at a time: one entry
// for each standard init container, with the sidecars that run beside it, and
// one for the long-running containers.
func (p PodRecord) phases(resource string) [][]charge {
	var budget uint64
	for _, b := range p.Pod {
		if b.Resource == resource {
			budget = add(budget, b.Size)
		}
	}
	var phases [][]charge
	var running []charge // slices of long-running containers so far
	var pool *charge     // what the others of them share
	for _, c := range p.asked.Containers {
		b, ok := p.block(c.Name, resource)
		if !ok {
			continue
		}
		mine := charge{b.Nodes, b.Size}
		shares := p.Whole() && len(p.asked.ExclusiveMemory(c)) == 0
		switch {
		case c.Kind == podplan.StandardInit:
			if !p.Whole() {
				// What later containers took over is no longer in the record.
				mine.size = max(mine.size, c.Memory[resource])
			}
			phase := append(slices.Clone(running), mine)
			if pool != nil && !shares {
				left := budget - min(budget, add(mine.size, load(p.Nodes(), running)))
				phase = append(phase, charge{pool.nodes, min(pool.size, left)})
			}
			phases = append(phases, phase)
		case shares:
			pool = &mine
		default:
			running = append(running, mine)
		}
	}
	if pool != nil {
		running = append(running, *pool)
	}
	return append(phases, running)
}

// parts are what a pod that was allocated as a whole consists of in its last
// phase, and the rest of its budget. For other pods it counts with these in
// place of its budget if it may in every phase: if no init container could take
// more of a node than they could.
func (p PodRecord) parts(resource string) ([]charge, bool) {
	if !p.Whole() || p.asked == nil || !p.hasClaimsOfItsOwn() {
		return nil, false
	}
	phases := p.phases(resource)
	last := len(phases) - 1
	rest := charge{nodes: p.Nodes()}
	for _, b := range p.Pod {
		if b.Resource == resource {
			rest.size = add(rest.size, b.Size)
		}
	}
	for _, part := range phases[last] {
		if part.size > rest.size || !part.nodes.IsSubsetOf(rest.nodes) {
			return nil, false
		}
		rest.size -= part.size
	}
	parts := append(phases[last], rest)
	for _, phase := range phases[:last] {
		for id := range rest.nodes.All() {
			if one := numa.SetOf(id); load(one, phase) > load(one, parts) {
				return nil, false
			}
		}
	}
	return parts, true
}

// block is what the container has of the resource.
func (p PodRecord) block(container, resource string) (Block, bool) {
	for _, b := range p.Containers[container] {
		if b.Resource == resource {
			return b, true
		}
	}
	return Block{}, false
}

// peakOf is how much the containers from this one on need at once, as far as
// they are going to have its memory again. For a standard init container these
// are the largest phase of those that end, and then the long-running containers
// in their order until they have taken over as much; for others it is what they
// ask for, since nothing of theirs is ever had again.
//
// An init container that is placed where that much is does not keep its pod
// from fitting there (kubernetes/kubernetes issue 123816), and leaves nothing
// behind that nobody uses.
func peakOf(pod podplan.Pod, container podplan.Container) podplan.Memory {
	own := pod.ExclusiveMemory(container)
	if container.Kind != podplan.StandardInit {
		return own
	}
	at := slices.IndexFunc(pod.Containers, func(c podplan.Container) bool { return c.Name == container.Name })
	peaks := podplan.Memory{}
	for resource, size := range own {
		peak, sidecars, takers := size, uint64(0), uint64(0)
		for _, c := range pod.Containers[at+1:] {
			wants := pod.ExclusiveMemory(c)[resource]
			switch c.Kind {
			case podplan.StandardInit:
				peak = max(peak, add(sidecars, wants))
			case podplan.Sidecar:
				sidecars = add(sidecars, wants)
			}
		}
		for _, c := range pod.Containers[at+1:] {
			if takers < peak && c.Kind.LongRunning() {
				takers = add(takers, pod.ExclusiveMemory(c)[resource])
			}
		}
		peaks[resource] = max(peak, takers)
	}
	return peaks
}

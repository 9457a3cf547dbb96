// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// ledger is one resource of a host: what the nodes have, what lies on them, and
// who counts on getting what. See "Nobody starves" in the package comment.
type ledger struct {
	capacities
	// charges is what is recorded, one entry for each set of nodes.
	charges []charge
	claims  []claim
	// sound is set when every claim is met.
	sound bool
}

// claim is an amount that somebody must be able to get on the nodes whatever
// the others do. The others are those that run beside it.
type claim struct {
	nodes  numa.Set
	need   uint64
	others []charge
}

// sure reports whether need can be had on the nodes however the others come to
// lie: whether what they take there at the most leaves as much.
func (c *capacities) sure(nodes numa.Set, others []charge, need uint64) bool {
	if need == 0 {
		return true
	}
	have := c.of(nodes)
	if need > have {
		return false
	}
	// Nearly always the nodes as a whole, or one of them, can take all that may
	// come there.
	if touching := load(nodes, others); touching <= have && need <= have-touching {
		return true
	}
	for id := range nodes.All() {
		if one := c[id]; need <= one && load(numa.SetOf(id), others) <= one-need {
			return true
		}
	}
	return nodes.Size() > 1 && need <= have-c.most(nodes, others)
}

// load is all that may come to lie on the nodes.
func load(nodes numa.Set, charges []charge) uint64 {
	var sum uint64
	for _, c := range charges {
		if overlap(c.nodes, nodes) {
			sum = add(sum, c.size)
		}
	}
	return sum
}

// inside is all that can lie nowhere but on the nodes.
func inside(nodes numa.Set, charges []charge) uint64 {
	var sum uint64
	for _, c := range charges {
		if c.nodes.IsSubsetOf(nodes) {
			sum = add(sum, c.size)
		}
	}
	return sum
}

func (l *ledger) met(c claim) bool { return l.sure(c.nodes, c.others, c.need) }

// tenant is a pod of which parts are left out of a ledger, or the zero value.
type tenant struct {
	uid string
	// ended are its standard init containers that have ended when what is
	// planned runs.
	ended []string
}

// ledger is that of a resource, without what the tenant has ended. Nobody may change
// it.
func (h Host) ledger(resource string, t tenant) *ledger {
	if len(t.ended) > 0 || h.ledgers == nil {
		return h.makeLedger(resource, t)
	}
	h.ledgers.mu.Lock()
	defer h.ledgers.mu.Unlock()
	if h.ledgers.made[resource] == nil {
		h.ledgers.made[resource] = h.makeLedger(resource, t)
	}
	return h.ledgers.made[resource]
}

func (h Host) makeLedger(resource string, t tenant) *ledger {
	l := &ledger{capacities: h.machine.capacities(resource)}
	pods := make([]PodRecord, 0, h.records.Len())
	charges := make([][]charge, 0, h.records.Len()) // of each pod
	var all, unsplit []charge
	for uid, pod := range h.records.All() {
		if uid == t.uid {
			pod = pod.without(t.ended)
		}
		parts, split := pod.parts(resource)
		if !split {
			parts = chargesOf(pod, resource, h.machine.ids)
			unsplit = append(unsplit, parts...)
		}
		pods, charges = append(pods, pod), append(charges, parts)
		all = append(all, parts...)
	}
	l.charges = joined(all)
	for _, c := range joined(unsplit) {
		l.claims = append(l.claims, claim{c.nodes, c.size, except(l.charges, c)})
	}
	for i, pod := range pods {
		if !pod.hasClaimsOfItsOwn() {
			continue
		}
		others := l.charges
		for _, c := range charges[i] {
			others = except(others, c)
		}
		l.claims = append(l.claims, pod.claims(resource, others)...)
	}
	l.sound = true
	for _, c := range l.claims {
		l.sound = l.sound && l.met(c)
	}
	return l
}

// chargesOf is what the pod is charged with of a resource.
func chargesOf(pod PodRecord, resource string, nodes numa.Set) []charge {
	var list []charge
	for b := range pod.Charges() {
		if b.Resource == resource && b.Size > 0 {
			list = append(list, charge{b.Nodes.Intersection(nodes), b.Size})
		}
	}
	return list
}

// except returns the charges without c, which is one of them or part of one.
func except(charges []charge, c charge) []charge {
	rest := make([]charge, 0, len(charges))
	for _, o := range charges {
		if o.nodes == c.nodes {
			o.size -= min(o.size, c.size)
		}
		if o.size > 0 {
			rest = append(rest, o)
		}
	}
	return rest
}

// offer is a ledger with a question about it: where could want more be had
// without anybody losing what is claimed?
type offer struct {
	*ledger
	want uint64
	// closed are the nodes that nothing more may come to: somebody there would
	// not be sure of his own any more.
	closed numa.Set
	// fragile are claims that bear it on some of their nodes only.
	fragile []claim
}

func (l *ledger) offer(want uint64) offer {
	o := offer{ledger: l, want: want}
	if want == 0 {
		return o
	}
	for _, c := range l.claims {
		if l.sure(c.nodes, c.others, add(c.need, want)) {
			continue // even if all of it comes to lie there
		}
		fragile := false
		for id := range c.nodes.All() {
			if l.sure(c.nodes.Difference(numa.SetOf(id)), c.others, c.need) {
				fragile = true
			} else {
				o.closed = o.closed.Union(numa.SetOf(id))
			}
		}
		if fragile {
			o.fragile = append(o.fragile, c)
		}
	}
	return o
}

// on reports whether the amount can be had on the nodes.
func (o offer) on(nodes numa.Set) bool {
	if o.want == 0 {
		return true
	}
	if overlap(nodes, o.closed) || o.sound && !o.mayFit(nodes) || !o.sure(nodes, o.charges, o.want) {
		return false
	}
	return o.spares(nodes)
}

// mayFit is a cheap look at the nodes: what lies inside them leaves enough.
func (o offer) mayFit(nodes numa.Set) bool {
	have, taken := o.of(nodes), inside(nodes, o.charges)
	return taken <= have && o.want <= have-taken
}

// spares reports whether everybody has enough left beside the nodes, if they
// are filled up.
func (o offer) spares(nodes numa.Set) bool {
	for _, c := range o.fragile {
		if overlap(c.nodes, nodes) && !o.sure(c.nodes.Difference(nodes), c.others, c.need) {
			return false
		}
	}
	return true
}

// beside reports the same as on when more than the one amount comes: charges
// that the pod has as well, and which are not in the ledger.
func (o offer) beside(nodes numa.Set, more []charge) bool {
	come := append([]charge{{nodes, o.want}}, more...)
	for i, c := range come {
		others := append(append(append([]charge{}, o.charges...), come[:i]...), come[i+1:]...)
		if !o.sure(c.nodes, others, c.size) {
			return false
		}
	}
	for _, c := range o.claims {
		touched := false
		for _, m := range come {
			touched = touched || m.size > 0 && overlap(m.nodes, c.nodes)
		}
		if touched && !o.sure(c.nodes, append(append([]charge{}, c.others...), come...), c.need) {
			return false
		}
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// process is a container, or several that share, with the pages that it has:
// the kernel may put each on any of its nodes.
type process struct {
	who   string
	nodes numa.Set
	size  uint64
	pages map[int]uint64
	taken uint64
}

// kernel hands out pages, one unit at a time, as badly as it can.
type kernel struct {
	left      map[int]uint64
	processes []*process
}

// newKernel runs one phase of each pod, drawn by chance; the budgets of pods
// that were allocated as a whole run as their parts or, sometimes, as one.
func newKernel(h Host, resource string, r *rand.Rand) *kernel {
	k := &kernel{left: map[int]uint64{}}
	for id := range h.Machine().Nodes().All() {
		c, _ := h.Machine().Capacity(id, resource)
		k.left[id] = c.Allocatable
	}
	for uid, pod := range h.Records().All() {
		parts := chargesOf(pod, resource, h.Machine().Nodes())
		_, split := pod.parts(resource)
		if phases := pod.phases(resource); split || r.IntN(4) > 0 {
			parts = phases[r.IntN(len(phases))]
		}
		for _, c := range parts {
			k.processes = append(k.processes, &process{who: uid, nodes: c.nodes, size: c.size, pages: map[int]uint64{}})
		}
	}
	return k
}

// take gives the process a page, on a node that the kernel likes best.
func (k *kernel) take(p *process, likes func(id int) int) bool {
	best := -1
	for id := range p.nodes.All() {
		if k.left[id] > 0 && (best < 0 || likes(id) > likes(best)) {
			best = id
		}
	}
	if best < 0 {
		return false
	}
	k.left[best]--
	p.pages[best]++
	p.taken++
	return true
}

// free takes a page away from the process.
func (k *kernel) free(p *process) {
	for id, n := range p.pages {
		if n > 0 {
			p.pages[id]--
			p.taken--
			k.left[id]++
			return
		}
	}
}

// run lets all processes have their pages; the victim comes last, and all others
// go where it may go, to the nodes with the least room first.
func (k *kernel) run(t *testing.T, h Host, victim *process, r *rand.Rand) {
	likes := func(id int) int { return r.IntN(1000) }
	if victim != nil {
		likes = func(id int) int {
			if victim.nodes.Contains(id) {
				return 1000000 - int(k.left[id])
			}
			return 0
		}
	}
	for {
		var waiting []*process
		for _, p := range k.processes {
			if p.taken < p.size && p != victim {
				waiting = append(waiting, p)
			}
		}
		if len(waiting) == 0 {
			break
		}
		p := waiting[r.IntN(len(waiting))]
		require.True(t, k.take(p, likes), "%s gets %d of %d on %s\n%v", p.who, p.taken, p.size, p.nodes, h.Records())
		if victim == nil && r.IntN(3) == 0 {
			k.free(k.processes[r.IntN(len(k.processes))])
		}
	}
	for victim != nil && victim.taken < victim.size {
		require.True(t, k.take(victim, likes), "the last, %s, gets %d of %d on %s\n%v", victim.who, victim.taken, victim.size, victim.nodes, h.Records())
	}
}

// scenarios is how many a test runs: PODSLICE_SCENARIOS if that is set.
func scenarios(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("PODSLICE_SCENARIOS")); err == nil {
		return n
	}
	return usual
}

// forgetful returns the records as they come out of a state file. What ended
// init containers had, and later ones took over, is not in it; so ordinary pods
// must be known before another one is admitted, and those with budgets need not.
func forgetful(r Records) Records {
	pods := map[string]PodRecord{}
	for uid, pod := range r.All() {
		if pod.Whole() {
			pod.asked = nil
		}
		pods[uid] = pod
	}
	return NewRecords(pods)
}

// TestNobodyStarves fills machines with random pods at random affinities and
// lets an adversary place their pages: everybody always gets what was promised.
func TestNobodyStarves(t *testing.T) {
	runs, overlapping, split := 0, 0, 0
	for seed := range scenarios(500) {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		h := NewHost(randomMachine(t, r), Records{})
		pods := map[string]podplan.Pod{}
		for step := range 12 {
			pod := randomPod(r, fmt.Sprint("p", step))
			pods[pod.UID] = pod
			if r.IntN(6) == 0 {
				h = NewHost(h.machine, forgetful(h.Records())) // a restart
			}
			if next, err := admit(h, pod, pod.Budget != nil && r.IntN(4) > 0, r); err == nil {
				h = next
			}
			if step%4 == 3 {
				for _, gone := range h.Records().uids {
					if r.IntN(5) == 0 {
						h = h.With(gone, PodRecord{})
					}
				}
			}
			for _, pod := range pods {
				h = NewHost(h.machine, h.Records().Know(pod))
			}
			for _, resource := range []string{Ordinary, "hugepages-2Mi"} {
				charges := joined(chargesByHand(h, resource))
				for i, c := range charges {
					for _, o := range charges[:i] {
						if overlap(c.nodes, o.nodes) {
							overlapping++
						}
					}
				}
				newKernel(h, resource, r).run(t, h, nil, r)
				k := newKernel(h, resource, r)
				if len(k.processes) > 0 {
					k.run(t, h, k.processes[r.IntN(len(k.processes))], r)
				}
				runs += 2
			}
			if record := h.Records().Pod(pod.UID); record.Whole() && record.hasClaimsOfItsOwn() {
				split++
			}
		}
	}
	t.Logf("%d runs, %d pairs of sets that overlap in a part, %d pods with parts on a part of their nodes", runs, overlapping, split)
	require.Greater(t, overlapping, runs/100)
	require.Greater(t, split, runs/1000)
}

// TestRefusalsAreRight: what is refused could starve somebody. An adversary is
// constructed for a set of nodes that is not offered: a maximum flow is one.
func TestRefusalsAreRight(t *testing.T) {
	for seed := range scenarios(300) {
		r := rand.New(rand.NewPCG(uint64(seed), 10))
		h := NewHost(randomMachine(t, r), Records{})
		for step := range 8 {
			pod := randomPod(r, fmt.Sprint("p", step))
			pod.Budget, pod.Managed = nil, true
			for i := range pod.Containers {
				pod.Containers[i].Kind = podplan.App
			}
			if next, err := admit(h, pod, false, r); err == nil {
				h = next
			}
			want := uint64(1 + r.IntN(20))
			q := h.query(podplan.Memory{Ordinary: want}, tenant{})
			nodes := numa.SetFromBits(1 + r.Uint64N(1<<7)).Intersection(q.capable)
			if nodes.IsEmpty() || q.fits(nodes) {
				continue
			}
			l := h.ledger(Ordinary, tenant{})
			charges := joined(append(l.charges, charge{nodes, want}))
			starved := false
			for _, c := range charges {
				starved = starved || c.size > l.of(c.nodes)-l.most(c.nodes, except(charges, c))
			}
			require.True(t, starved, "%d more on %s is refused: %v", want, nodes, h.Records())
		}
	}
}

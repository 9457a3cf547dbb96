// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Names of the static CPU manager policy's options.
const (
	FullPCPUs   = "full-pcpus-only"
	AcrossNUMA  = "distribute-cpus-across-numa"
	BySocket    = "align-by-socket"
	AcrossCores = "distribute-cpus-across-cores"
	Strict      = "strict-cpu-reservation"
	Uncore      = "prefer-align-cpus-by-uncorecache"
)

// Limits bound what is generated.
type Limits struct {
	// Nodes is the most NUMA nodes with CPUs.
	Nodes int
	// Options are the sets of options to choose from.
	Options [][]string
	// PodLevel fixes the gate when it is not nil.
	PodLevel *bool
	// Crossed allows machines on which a socket has several NUMA nodes and
	// another NUMA node has several sockets.
	Crossed bool
}

// Generate returns the scenario of a seed.
func Generate(seed uint64, limits Limits) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0x706f64736c696365))
	s := &Scenario{Seed: seed}
	// Drawn first, so that the machine does not depend on them.
	podLevel := r.IntN(4) > 0
	if limits.PodLevel != nil {
		podLevel = *limits.PodLevel
	}
	options := limits.Options[r.IntN(len(limits.Options))]
	s.Machine = randomMachine(r, limits)
	s.Settings = randomSettings(r, s.Machine, options)
	s.Settings.PodLevel = podLevel
	s.Events = randomEvents(r, s)
	return s
}

func randomSettings(r *rand.Rand, m Machine, options []string) Settings {
	set := Settings{Options: options}
	set.Policy = pick(r, "none", "best-effort", "best-effort", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node")
	set.Scope = pick(r, "container", "pod")
	if slices.Contains(options, BySocket) && set.Policy == "single-numa-node" {
		set.Policy = "restricted"
	}
	most := min(4, len(m.CPUs)-1)
	set.ReservedCount = 1 + r.IntN(max(1, most))
	switch r.IntN(5) {
	case 0:
		// The manager chooses.
	case 1, 2:
		// Whole cores, as is recommended.
		for _, i := range r.Perm(len(m.CPUs)) {
			siblings := m.Siblings(m.CPUs[i].ID)
			if len(set.Reserved) > 0 && len(set.Reserved)+len(siblings) > max(set.ReservedCount, 2) {
				break
			}
			if !slices.Contains(set.Reserved, siblings[0]) {
				set.Reserved = append(set.Reserved, siblings...)
			}
		}
		if len(set.Reserved) == len(m.CPUs) && len(set.Reserved) > 1 {
			set.Reserved = set.Reserved[:len(set.Reserved)-1]
		}
	default:
		for _, i := range r.Perm(len(m.CPUs))[:set.ReservedCount] {
			set.Reserved = append(set.Reserved, m.CPUs[i].ID)
		}
	}
	if len(set.Reserved) > 0 {
		slices.Sort(set.Reserved)
		set.ReservedCount = len(set.Reserved)
	}
	return set
}

func randomEvents(r *rand.Rand, s *Scenario) []Event {
	var events []Event
	var pods []string
	steps := 4 + r.IntN(9)
	for len(events) < steps {
		switch n := r.IntN(10); {
		case n < 2 && len(pods) > 0:
			i := r.IntN(len(pods))
			events = append(events, Event{Remove: pods[i]})
			pods = slices.Delete(pods, i, i+1)
		case n < 3 && len(pods) > 0:
			events = append(events, Event{Restart: true})
		default:
			pod := randomPod(r, s, fmt.Sprintf("p%d", len(events)))
			pods = append(pods, pod.Name)
			e := Event{Admit: pod, Affinity: pick(r, FromHints, FromHints, FromHints, Anywhere, FromMasks)}
			if s.Settings.Policy == "none" {
				e.Affinity = Anywhere
			}
			if e.Affinity == FromMasks {
				e.Masks = randomMasks(r, s, len(pod.Containers))
			}
			events = append(events, e)
		}
	}
	return events
}

// randomMasks has one mask for the whole pod in pod scope, as there.
func randomMasks(r *rand.Rand, s *Scenario, n int) []uint64 {
	nodes := s.Machine.Nodes
	masks := make([]uint64, n)
	for i := range masks {
		if i > 0 && (s.Settings.Scope == "pod" || r.IntN(3) > 0) {
			masks[i] = masks[i-1]
			continue
		}
		for _, node := range nodes {
			if r.IntN(2) == 0 {
				masks[i] |= 1 << node.ID
			}
		}
		if masks[i] == 0 {
			masks[i] = 1 << nodes[r.IntN(len(nodes))].ID
		}
	}
	return masks
}

func randomPod(r *rand.Rand, s *Scenario, name string) *Pod {
	p := &Pod{Name: name}
	budget := r.IntN(5) < 2
	kinds := []Kind{Init, Sidecar}
	for i := range r.IntN(8) / 3 { // mostly none, up to two
		p.Containers = append(p.Containers, Container{Name: fmt.Sprintf("i%d", i), Kind: kinds[r.IntN(2)]})
	}
	for i := range 1 + r.IntN(5)/3 {
		p.Containers = append(p.Containers, Container{Name: fmt.Sprintf("a%d", i), Kind: App})
	}
	// A few pods are not Guaranteed, and a few containers ask for a fraction.
	burstable := r.IntN(12) == 0
	for i := range p.Containers {
		c := &p.Containers[i]
		if budget && r.IntN(3) == 0 {
			continue // shares
		}
		c.MilliCPU, c.MemoryMiB = 1000*randomCPUs(r, s), 64*(1+r.IntN(4))
		if r.IntN(10) == 0 {
			c.MilliCPU -= 500
		}
		c.Lower = burstable || budget && r.IntN(8) == 0
	}
	if budget {
		p.Budget = randomBudget(r, s, p)
	}
	return p
}

// randomBudget is at least what the API asks for: what runs side by side.
func randomBudget(r *rand.Rand, s *Scenario, p *Pod) *Budget {
	var sidecars, most, memory int
	var apps int
	for _, c := range p.Containers {
		memory += c.MemoryMiB
		switch c.Kind {
		case Init:
			most = max(most, sidecars+c.MilliCPU)
		case Sidecar:
			sidecars += c.MilliCPU
		case App:
			apps += c.MilliCPU
		}
	}
	need := max(most, sidecars+apps)
	whole := (need + 999) / 1000 * 1000
	b := &Budget{MilliCPU: whole + 1000*r.IntN(4), MemoryMiB: memory + 64}
	if group := threads(s); s.Settings.Has(FullPCPUs) && r.IntN(4) > 0 {
		for b.MilliCPU%(1000*group) != 0 {
			b.MilliCPU += 1000
		}
	}
	if b.MilliCPU == 0 {
		b.MilliCPU = 2000
	}
	if r.IntN(15) == 0 {
		b.MilliCPU += 500
	}
	return b
}

func threads(s *Scenario) int {
	return len(s.Machine.Siblings(s.Machine.CPUs[0].ID))
}

// randomCPUs is mostly small, sometimes as much as a node or the machine has.
func randomCPUs(r *rand.Rand, s *Scenario) int {
	all := len(s.Machine.CPUs)
	perNode := max(1, all/len(s.Machine.CPUNodes()))
	var n int
	switch r.IntN(8) {
	case 0, 1, 2:
		n = 1 + r.IntN(4)
	case 3, 4, 5:
		n = 1 + r.IntN(perNode)
	case 6:
		n = 1 + r.IntN(max(1, all/2))
	default:
		n = 1 + r.IntN(all)
	}
	if group := threads(s); s.Settings.Has(FullPCPUs) && group > 1 && r.IntN(5) > 0 {
		n = (n + group - 1) / group * group
	}
	return n
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

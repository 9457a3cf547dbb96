// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"math/rand/v2"
	"testing"
	"time"
)

func supplies(unit, resource string, asked uint64, allocatable ...uint64) Demand {
	d := Demand{Resource: resource, Unit: unit, Asked: asked}
	for id, amount := range allocatable {
		d.Nodes = append(d.Nodes, Supply{Node: id, Free: amount, Allocatable: amount})
	}
	return d
}

func TestDemandInWords(t *testing.T) {
	const gi = 1 << 30
	for _, c := range []struct {
		demand Demand
		want   string
	}{
		{supplies("CPUs", "cpu", 1, 4), "asked for 1 CPU; free: NUMA node 0: 4 of 4"},
		{supplies("CPUs", "cpu", 9, 4, 4, 0, 6), "asked for 9 CPUs; free: NUMA nodes 0-1: 4 of 4 each; NUMA node 3: 6 of 6; 1 node without CPUs"},
		{supplies("", "memory", 3*gi, gi, gi+1<<20, 0, 0), "asked for 3Gi; free: NUMA node 0: 1Gi of 1Gi; NUMA node 1: 1025Mi of 1025Mi; 2 nodes without memory"},
		{Demand{Resource: "hugepages-2Mi", Asked: gi + 1, Nodes: []Supply{{Node: 4, Allocatable: gi, Reserved: 2 * gi, Note: "in the group of NUMA nodes 4-5"}}, Rule: "a rule"},
			"asked for 1.00Gi; free: NUMA node 4: 0 of 1Gi, 2Gi reserved, in the group of NUMA nodes 4-5; a rule"},
		{Demand{Resource: "cpu", Unit: "CPUs", Asked: 2, Nodes: []Supply{{Node: 0, Reserved: 2}}}.On(SetOf(0, 5, 6)),
			"asked for 2 CPUs; free: NUMA node 0: 0 of 0, 2 reserved; 2 nodes without CPUs"},
	} {
		if got := c.demand.String(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// On small machines the answer is the narrowest there is.
func TestFitIsNarrowest(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 2_000 {
		n := 1 + r.IntN(6)
		var demands []Demand
		for range r.IntN(3) + 1 {
			amounts := make([]uint64, n)
			for i := range amounts {
				amounts[i] = uint64(r.IntN(6))
			}
			demands = append(demands, supplies("CPUs", "cpu", uint64(1+r.IntN(12)), amounts...))
		}
		narrowest := 0
		for s := range firstNodes(n).Subsets() {
			enough := true
			for _, d := range demands {
				var sum uint64
				for id := range s.All() {
					sum += d.Nodes[id].Allocatable
				}
				enough = enough && sum >= d.Asked
			}
			if enough {
				narrowest = s.Size()
				break
			}
		}
		got, ok := Fit(demands)
		if ok != (narrowest > 0) || got.Size() != narrowest {
			t.Fatalf("Fit says {%s} %t, the narrowest has %d nodes, for %+v", got, ok, narrowest, demands)
		}
	}
}

// A refusal on a large machine must not take long either.
func TestFitIsBounded(t *testing.T) {
	odd, even := make([]uint64, MaxNodes), make([]uint64, MaxNodes)
	for i := range odd {
		odd[i], even[i] = uint64(i%2), uint64((i+1)%2)
	}
	start := time.Now()
	got, ok := Fit([]Demand{supplies("CPUs", "cpu", 32, odd...), supplies("", "memory", 32, even...)})
	if !ok || got.Size() != MaxNodes {
		t.Errorf("{%s} %t, want all nodes", got, ok)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

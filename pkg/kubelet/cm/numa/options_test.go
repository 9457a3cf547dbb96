// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// fourNodes are two sockets of two nodes each; nodes 0 and 1 are near.
func fourNodes(t *testing.T) *Distances {
	t.Helper()
	d, err := NewDistances([]int{0, 1, 2, 3}, [][]uint64{{10, 12, 32, 32}, {12, 10, 32, 32}, {32, 32, 10, 12}, {32, 32, 12, 10}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func hints(preferred bool, masks ...Set) (list []Hint) {
	for _, m := range masks {
		list = append(list, Hint{Nodes: m, Preferred: preferred})
	}
	return list
}

func TestTieBreak(t *testing.T) {
	all := firstNodes(4)
	ones := hints(true, SetOf(0), SetOf(1), SetOf(2), SetOf(3))
	pairs := hints(true, SetOf(0, 1), SetOf(0, 2), SetOf(1, 3), SetOf(2, 3))
	usage := NewUsage([]NodeUsage{
		{Node: 0, Resource: "cpu", Allocatable: 10, Free: 5}, {Node: 0, Resource: "memory", Allocatable: 100, Free: 100}, // 1/4
		{Node: 1, Resource: "cpu", Allocatable: 10, Free: 10},                                               // idle
		{Node: 2, Resource: "cpu", Allocatable: 10, Free: 2}, {Node: 2, Resource: "memory", Allocatable: 0}, // 4/5
		// Node 3 tells nothing.
	})
	for _, c := range []struct {
		name            string
		list            []Hint
		distances       *Distances
		lowest, ml, lla Set // lowest, most-allocated, least-allocated
	}{
		{"single nodes", ones, nil, SetOf(0), SetOf(2), SetOf(1)},
		{"pairs", pairs, nil, SetOf(0, 1), SetOf(0, 2), SetOf(1, 3)},
		{"near pairs", pairs, fourNodes(t), SetOf(0, 1), SetOf(2, 3), SetOf(0, 1)},
		{"a narrower one wins", append(hints(true, SetOf(3)), pairs...), nil, SetOf(3), SetOf(3), SetOf(3)},
		{"not preferred", hints(false, SetOf(0), SetOf(1), SetOf(2)), nil, SetOf(0), SetOf(2), SetOf(1)},
	} {
		for tieBreak, want := range map[TieBreak]Set{Lowest: c.lowest, MostAllocated: c.ml, LeastAllocated: c.lla} {
			got := Merge(all, []Resource{{Name: "cpu", Hints: c.list}}, MergeOptions{Distances: c.distances, TieBreak: tieBreak, Usage: usage})
			if got.Nodes != want {
				t.Errorf("%s, tie-break %d: {%s}, want {%s}", c.name, tieBreak, got.Nodes, want)
			}
		}
	}
	if got := usage.Allocated(0); got != 0.25 {
		t.Errorf("node 0 is allocated by %v", got)
	}
}

func TestLocality(t *testing.T) {
	n := SetOf
	for _, c := range []struct {
		name          string
		resources     []Resource
		plain, wanted Set
	}{
		{"106270: the last device is where no CPUs are left", []Resource{
			{Name: "example.com/vf", Hints: append(hints(true, n(0)), hints(false, n(0, 1))...)},
			{Name: "cpu", Hints: append(hints(true, n(1)), hints(false, n(0, 1))...)},
		}, n(0), n(1)},
		{"136431: the devices need two nodes, CPUs and memory one", []Resource{
			{Name: "example.com/gpu", Hints: hints(true, n(2, 3))},
			{Name: "cpu", Hints: append(hints(true, n(0), n(1), n(3)), hints(false, n(0, 1), n(1, 3), n(0, 1, 2, 3))...)},
			{Name: "memory", Hints: append(hints(true, n(0), n(1), n(3)), hints(false, n(0, 1), n(1, 3), n(0, 1, 2, 3))...)},
		}, n(2, 3), n(3)},
		{"the node beside the device", []Resource{
			{Name: "example.com/gpu", Hints: hints(true, n(1))},
			{Name: "cpu", Hints: hints(true, n(0), n(2), n(3))},
		}, n(0, 1, 2, 3), n(0)},
		{"near to each other before near to the device", []Resource{
			{Name: "example.com/gpu", Hints: hints(true, n(0))},
			{Name: "cpu", Hints: hints(true, n(1, 2), n(2, 3))},
		}, n(0, 1, 2, 3), n(2, 3)},
		{"CPUs and memory together although apart they would need fewer", []Resource{
			{Name: "cpu", Hints: append(hints(true, n(0)), hints(false, n(0, 1), n(0, 2))...)},
			{Name: "memory", Hints: append(hints(true, n(1)), hints(false, n(0, 1), n(1, 2))...)},
		}, n(0), n(0, 1)},
		{"several devices: the nearest to all", []Resource{
			{Name: "example.com/gpu", Hints: hints(true, n(2))},
			{Name: "example.com/nic", Hints: hints(true, n(3))},
			{Name: "cpu", Hints: hints(true, n(0), n(1), n(3))},
		}, n(0, 1, 2, 3), n(3)},
		{"nothing is offered by both", []Resource{
			{Name: "cpu", Hints: hints(true, n(0))},
			{Name: "memory", Hints: hints(true, n(1))},
		}, n(0, 1, 2, 3), n(0, 1, 2, 3)},
		{"no CPUs at all", []Resource{
			{Name: "cpu"},
			{Name: "memory", Hints: hints(true, n(1))},
		}, n(1), n(1)},
		{"only devices differ", []Resource{
			{Name: "example.com/gpu", Hints: hints(true, n(2))},
			{Name: "example.com/nic", Hints: hints(true, n(3))},
		}, n(0, 1, 2, 3), n(0, 1, 2, 3)},
	} {
		if got := Merge(firstNodes(4), c.resources, MergeOptions{}); got.Preferred || got.Nodes != c.plain {
			t.Errorf("%s: without the option %+v, want {%s}", c.name, got, c.plain)
		}
		if got := Merge(firstNodes(4), c.resources, MergeOptions{Locality: fourNodes(t)}); got.Preferred || got.Nodes != c.wanted {
			t.Errorf("%s: %+v, want {%s}", c.name, got, c.wanted)
		}
	}
}

// What the options promise, on random problems: a preferred result is preferred
// with and without them and of the same size; the tie-break changes neither
// size nor mean distance; CPUs and memory that stay together lie on nodes that
// each of them offers.
func TestOptionsKeepTheirPromises(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	moved, kept := 0, 0
	for range 20_000 {
		p := randomProblem(r)
		p.opts.TieBreak, p.opts.Locality = Lowest, nil
		plain := Merge(p.all, p.resources, p.opts)

		p.opts.Usage, p.opts.TieBreak = randomUsage(r, p.all), MostAllocated
		tied := Merge(p.all, p.resources, p.opts)
		if tied.Preferred != plain.Preferred || tied.Nodes.Size() != plain.Nodes.Size() {
			t.Fatalf("the tie-break turns %+v into %+v for %s", plain, tied, p)
		}
		if d := p.opts.Distances; d != nil && d.Mean(tied.Nodes) != d.Mean(plain.Nodes) {
			t.Fatalf("the tie-break turns %+v into %+v, which is not as near, for %s", plain, tied, p)
		}
		if tied != plain {
			moved++
		}

		p.opts.TieBreak, p.opts.Locality = Lowest, randomDistances(r, p.all)
		local := Merge(p.all, p.resources, p.opts)
		if plain.Preferred && local != plain || local.Preferred != plain.Preferred {
			t.Fatalf("locality turns %+v into %+v for %s", plain, local, p)
		}
		if nodes, ok := naiveTogether(p.all, p.resources, p.opts); ok && !plain.Preferred {
			kept++
			if local.Nodes != nodes {
				t.Fatalf("got %+v, want {%s} for %s", local, nodes, p)
			}
		}
	}
	if moved < 500 || kept < 500 {
		t.Errorf("%d results moved by the tie-break, %d kept together: the generator is of no use", moved, kept)
	}
}

// A merge allocates nothing once its memory is there, whatever its outcome.
func TestMergeAllocatesNothing(t *testing.T) {
	for _, n := range []int{2, 8, 12, 17} {
		for _, apart := range []bool{false, true} {
			all := firstNodes(n)
			var resources []Resource
			for i := range 4 {
				home := SetOf(n - 1)
				if apart {
					home = SetOf(i)
				}
				resources = append(resources, Resource{Name: fmt.Sprint(i), Hints: hintsOf(all, min(n-1, 5), func(s Set) bool { return s == home })})
			}
			opts := MergeOptions{Usage: NewUsage(nil), TieBreak: LeastAllocated}
			// The collector and the race detector empty the pool now and then.
			least := math.Inf(1)
			for range 20 {
				least = min(least, testing.AllocsPerRun(1, func() { sink = Merge(all, resources, opts) }))
			}
			if least > 0 {
				t.Errorf("%d nodes, apart %t: %v allocations", n, apart, least)
			}
		}
	}
}

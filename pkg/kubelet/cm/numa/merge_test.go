// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMergeIsNaiveMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	preferred, empty := 0, 0
	for range 30_000 {
		p := randomProblem(r)
		want := naiveMerge(p.all, p.resources, p.opts)
		got := Merge(p.all, p.resources, p.opts)
		if got != want {
			t.Fatalf("got %+v, want %+v for %s", got, want, p)
		}
		if want.Preferred {
			preferred++
		}
		if want.Nodes == p.all {
			empty++
		}
	}
	if preferred < 5_000 || preferred > 25_000 {
		t.Errorf("%d of 30000 problems have a preferred result; the generator is of no use", preferred)
	}
}

// The order of resources and of hints must not matter, neither to Merge nor to
// the definition.
func TestMergeInAllOrders(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		p := randomProblem(r)
		want := Merge(p.all, p.resources, p.opts)
		permutations(p.resources, func(resources []Resource) {
			shuffled := slices.Clone(resources)
			for i := range shuffled {
				shuffled[i].Hints = slices.Clone(shuffled[i].Hints)
				r.Shuffle(len(shuffled[i].Hints), func(a, b int) {
					h := shuffled[i].Hints
					h[a], h[b] = h[b], h[a]
				})
			}
			if got := Merge(p.all, shuffled, p.opts); got != want {
				t.Fatalf("Merge depends on the order: %+v and %+v for %s", got, want, p)
			}
			if got := naiveMerge(p.all, shuffled, p.opts); got != want {
				t.Fatalf("naiveMerge depends on the order: %+v and %+v for %s", got, want, p)
			}
		})
	}
}

func permutations(list []Resource, visit func([]Resource)) {
	var rest func(int)
	rest = func(k int) {
		if k == len(list) {
			visit(list)
			return
		}
		for i := k; i < len(list); i++ {
			list[k], list[i] = list[i], list[k]
			rest(k + 1)
			list[k], list[i] = list[i], list[k]
		}
	}
	rest(0)
}

// Both ways to find the reachable masks must find the same ones.
func TestReachDenseIsReachPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3_000 {
		core := SetFromBits(r.Uint64() & r.Uint64() & 0x3f3f) // 12 IDs with a gap
		if core.IsEmpty() {
			continue
		}
		lists := make([][]Hint, 1+r.IntN(4))
		for i := range lists {
			lists[i] = []Hint{{Nodes: core}} // keeps the core as it is
			for range r.IntN(20) {
				lists[i] = append(lists[i], Hint{Nodes: SetFromBits(r.Uint64()), Any: r.IntN(10) == 0})
			}
		}
		pick := picker{target: r.IntN(6)}
		dense := pick
		newWorkspace().reachDense(lists, newFrame(core), &dense)
		newWorkspace().reachPairs(lists, core, &pick)
		if dense.best != pick.best || dense.found != pick.found {
			t.Fatalf("dense {%s}, pairs {%s} for core {%s}, lists %v", dense.best, pick.best, core, lists)
		}
	}
}

// hintsOf returns all masks of at most maxSize nodes out of ids, of which the
// narrowest are preferred where prefer says so, and the full mask.
func hintsOf(all Set, maxSize int, prefer func(Set) bool) []Hint {
	var list []Hint
	for s := range all.Subsets() {
		if s.Size() > maxSize {
			break
		}
		list = append(list, Hint{Nodes: s, Preferred: prefer(s)})
	}
	return append(list, Hint{Nodes: all})
}

func firstNodes(n int) Set {
	if n == MaxNodes {
		return SetFromBits(^uint64(0))
	}
	return SetFromBits(1<<n - 1)
}

// On machines on which no list can be complete, the preferred result is exact
// and everything else ends in time.
func TestMergeOnManyNodes(t *testing.T) {
	all := firstNodes(MaxNodes)
	for _, agree := range []bool{true, false} {
		resources := make([]Resource, 4)
		for i := range resources {
			home := SetOf(40, 41)
			if !agree {
				home = SetOf(40+i, 41+i)
			}
			resources[i] = Resource{Name: fmt.Sprint(i), Hints: hintsOf(all, 3, func(s Set) bool { return s == home })}
		}
		start := time.Now()
		got := Merge(all, resources, MergeOptions{})
		t.Logf("4 resources of %d hints, preferred=%t: %v", len(resources[0].Hints), agree, time.Since(start))
		if agree && got != (Hint{Nodes: SetOf(40, 41), Preferred: true}) {
			t.Errorf("got %+v, want 40-41, preferred", got)
		}
		if !agree && (got.Preferred || got.Nodes.Size() != 1 || len(Objections(all, resources, false)) != 4) {
			t.Errorf("got %+v, want one node (every resource needs one), not preferred, with 4 objections", got)
		}
	}
}

// Nodes that only some resources know cost nothing: 36 nodes of which 2 have
// CPUs.
func TestMergeOnFewUsefulNodes(t *testing.T) {
	all := firstNodes(36)
	cpu := Resource{Name: "cpu", Hints: hintsOf(SetOf(0, 1), 2, func(s Set) bool { return s == SetOf(0) })}
	gpu := Resource{Name: "gpu", Hints: hintsOf(all, 4, func(s Set) bool { return s == SetOf(1) })}
	got := Merge(all, []Resource{gpu, cpu}, MergeOptions{})
	if got != (Hint{Nodes: SetOf(0)}) {
		t.Errorf("got %+v, want node 0, not preferred", got)
	}
}

func TestObjections(t *testing.T) {
	all := firstNodes(2)
	one, two, both := Hint{Nodes: SetOf(0), Preferred: true}, Hint{Nodes: SetOf(1), Preferred: true}, Hint{Nodes: all}
	cases := []struct {
		name   string
		single bool
		lists  map[string][]Hint
		want   string
	}{
		{"none at all", false, map[string][]Hint{"cpu": {one}, "memory": {}},
			"memory: not available on any set of NUMA nodes"},
		{"too wide", false, map[string][]Hint{"cpu": {both}, "memory": {two}},
			"cpu: available only from more NUMA nodes than it should need"},
		{"too wide for one node", true, map[string][]Hint{"cpu": {{Nodes: all, Preferred: true}}, "memory": {two}},
			"cpu: not available on any single NUMA node"},
		{"not online", false, map[string][]Hint{"cpu": {{Nodes: SetOf(7), Preferred: true}}, "memory": {one}},
			"cpu: preferred on NUMA nodes {7}, which are not online"},
		{"apart", false, map[string][]Hint{"cpu": {one, both}, "memory": {two, one, {Nodes: all, Preferred: true}}, "gpu": {two}},
			"cpu: preferred on NUMA nodes {0}, on which not all resources agree | " +
				"gpu: preferred on NUMA nodes {1}, on which not all resources agree | " +
				"memory: preferred on NUMA nodes {0} or {1} or {0-1}, on which not all resources agree"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var resources []Resource
			for _, name := range []string{"cpu", "gpu", "memory"} {
				if list, ok := c.lists[name]; ok {
					resources = append(resources, Resource{Name: name, Hints: list})
				}
			}
			var got []string
			for _, o := range Objections(all, resources, c.single) {
				got = append(got, o.String())
			}
			if s := strings.Join(got, " | "); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte{3, 0, 1, 1, 2, 2, 3, 0})
	f.Add([]byte{7, 9, 1, 5, 255, 2, 6, 0, 4, 4, 128})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 {
			return
		}
		p := problem{all: SetFromBits(uint64(data[0]) & 0x3f), opts: MergeOptions{SingleNode: data[1]&1 == 1}}
		if data[1]&2 != 0 {
			p.opts.Distances = randomDistances(rand.New(rand.NewPCG(uint64(data[1]), 0)), p.all)
		}
		data = data[2:]
		for len(data) > 0 && len(p.resources) < 4 {
			count := int(data[0] & 7)
			r := Resource{Name: fmt.Sprint(len(p.resources)), NoPreference: data[0]&8 != 0}
			data = data[1:]
			for ; count > 0 && len(data) > 0; count-- {
				r.Hints = append(r.Hints, Hint{Nodes: SetFromBits(uint64(data[0] & 0x3f)), Any: data[0]&0xc0 == 0xc0, Preferred: data[0]&0x40 != 0})
				data = data[1:]
			}
			p.resources = append(p.resources, r)
		}
		if got, want := Merge(p.all, p.resources, p.opts), naiveMerge(p.all, p.resources, p.opts); got != want {
			t.Fatalf("got %+v, want %+v for %s", got, want, p)
		}
	})
}

var sink Hint

func BenchmarkMerge(b *testing.B) {
	for _, n := range []int{8, 12, 16} {
		for _, count := range []int{3, 4} {
			for _, kind := range []string{"agreed", "apart"} {
				all := firstNodes(n)
				var resources []Resource
				for i := range count {
					home := SetOf(n - 1)
					if kind == "apart" {
						home = SetOf(i)
					}
					resources = append(resources, Resource{Name: fmt.Sprint(i), Hints: hintsOf(all, n-1, func(s Set) bool { return s == home })})
				}
				b.Run(fmt.Sprintf("nodes=%d/resources=%d/hints=%d/%s", n, count, len(resources[0].Hints), kind), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						sink = Merge(all, resources, MergeOptions{})
					}
				})
			}
		}
	}
}

func TestDistances(t *testing.T) {
	d, err := NewDistances([]int{8, 0}, [][]uint64{{21, 11}, {10, 20}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to int
		want     uint64
	}{{0, 0, 10}, {0, 8, 20}, {8, 0, 21}, {8, 8, 11}} {
		if got, ok := d.Between(c.from, c.to); !ok || got != c.want {
			t.Errorf("from %d to %d: %d %t, want %d", c.from, c.to, got, ok, c.want)
		}
	}
	if _, ok := d.Between(0, 1); ok {
		t.Error("node 1 has a distance")
	}
	if got := d.Mean(SetOf(0, 8)); got != 62.0/4 {
		t.Errorf("mean of 0,8 is %v, want %v", got, 62.0/4)
	}
	if got := d.Mean(SetOf(1)); got != 0 {
		t.Errorf("mean of an unknown node is %v, want 0", got)
	}
}

func TestDistancesErrors(t *testing.T) {
	for _, c := range []struct {
		ids  []int
		rows [][]uint64
		want string
	}{
		{[]int{0, 64}, [][]uint64{{10, 20}, {20, 10}}, "NUMA node ID 64 is outside the supported range 0-63"},
		{[]int{0, 0}, [][]uint64{{10, 20}, {20, 10}}, "NUMA nodes [0 0]: an ID stands there twice"},
		{[]int{0, 1}, [][]uint64{{10, 20}}, "1 rows of distances for the 2 NUMA nodes 0-1"},
		{[]int{0, 1}, [][]uint64{{10, 20}, nil}, "NUMA node 1 has 0 distances [], want 2, one for each of the nodes 0-1"},
		{[]int{3, 5}, [][]uint64{{10}, {20, 10}}, "NUMA node 3 has 1 distances [10], want 2, one for each of the nodes 3,5"},
		{[]int{0, 8}, [][]uint64{{10, 20}, {20, 10, 30}}, "NUMA node 8 has 3 distances [20 10 30], want 2, one for each of the nodes 0,8"},
	} {
		_, err := NewDistances(c.ids, c.rows)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v %v: %v, want %s", c.ids, c.rows, err, c.want)
		}
	}
}

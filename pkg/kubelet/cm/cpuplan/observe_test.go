// SPDX-License-Identifier: Apache-2.0

package cpuplan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// TestObserved has what containers may be seen on, CPUs 0-15 with 0 and 8
// reserved, and says which of it is taken for somebody's own.
func TestObserved(t *testing.T) {
	cpus := map[string]Set{
		"own": NewSet(1, 9), "own2": NewSet(2), "beside": NewSet(3, 10), "recorded": NewSet(4, 12),
		"pool":        NewSet(0, 5, 6, 7, 8, 13, 14, 15),
		"stale pool":  NewSet(0, 1, 5, 6, 7, 8, 9, 13, 14, 15),
		"strict":      NewSet(5, 6, 7, 13, 14, 15),
		"strict was":  NewSet(1, 5, 6, 7, 9, 13, 14, 15),
		"part of own": NewSet(9, 10), "gone": NewSet(40), "part gone": NewSet(11, 41),
	}
	for name, test := range map[string]struct{ seen, want string }{
		"nothing":                      {"", ""},
		"not bound":                    {"a/c=", ""},
		"their own":                    {"a/c=own,a/d=own2,b/c=beside", "a: c=1,9 d=2; b: c=3,10"},
		"the same in one pod":          {"a/c=own,a/d=own", "a: c=1,9 d=1,9"},
		"the pool":                     {"a/c=pool", ""},
		"beside the pool":              {"a/c=own,a/d=pool,b/c=pool", "a: c=1,9"},
		"not moved off yet":            {"a/c=own,b/c=stale pool", "a: c=1,9"},
		"a strict reservation":         {"a/c=own,b/c=strict,c/c=strict", "a: c=1,9"},
		"strict, not moved off yet":    {"a/c=own,b/c=strict was,c/c=strict was", "a: c=1,9"},
		"strict, and nothing beside":   {"b/c=strict", "b: c=5-7,13-15"},
		"two pods in each other's way": {"a/c=part of own,b/c=own,c/c=own2", "c: c=2"},
		"what others have on record":   {"a/c=recorded,b/c=own", "b: c=1,9"},
		"a pod that has a record":      {"r/c=own", ""},
		"CPUs that have gone":          {"a/c=gone,b/c=part gone", "b: c=11"},
	} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/strict=%t", name, strict), func(t *testing.T) {
				n, err := NewNode(machineOf(2, []int{2, 2, 2, 2}, []int{2, 2, 2, 2}), NewSet(0, 8), 2, Options{StrictCPUReservation: strict})
				require.NoError(t, err)
				seen := map[string]map[string]Set{}
				for _, part := range strings.Split(test.seen, ",") {
					who, what, ok := strings.Cut(part, "=")
					if !ok {
						continue
					}
					uid, container, _ := strings.Cut(who, "/")
					if seen[uid] == nil {
						seen[uid] = map[string]Set{}
					}
					seen[uid][container] = cpus[what]
				}
				before := NewState(map[string]Record{"r": {Containers: map[string]Set{"x": NewSet(4)}}})
				after := n.Observed(before, seen)
				require.Equal(t, before.Record("r"), after.Record("r"))
				var got []string
				for _, uid := range after.PodUIDs() {
					if uid != "r" {
						got = append(got, uid+": "+after.Record(uid).String())
					}
				}
				require.Equal(t, test.want, strings.Join(got, "; "))
			})
		}
	}
}

// TestConfirmed holds what was observed against what a pod asks for: a with two
// CPUs, b with one, and s, which shares, out of a budget of four.
func TestConfirmed(t *testing.T) {
	container := func(name string, cpus int64) podplan.Container {
		return podplan.Container{Name: name, Kind: podplan.App, Guaranteed: cpus > 0, FixedCPU: cpus > 0, MilliCPU: 1000 * cpus, LimitMilliCPU: 1000 * cpus}
	}
	pod := podplan.Pod{UID: "p", Managed: true, Facts: podplan.Facts{Guaranteed: true, PodLevel: true}, Budget: &podplan.Budget{MilliCPU: 4000},
		Containers: []podplan.Container{container("a", 2), container("b", 1), container("s", 0)}}
	a, b, s := NewSet(1, 2), NewSet(3), NewSet(4)
	for name, test := range map[string]struct {
		seen        map[string]Set
		whole, each string
	}{
		"all":                 {map[string]Set{"a": a, "b": b, "s": s}, "pod=1-4 a=1-2 b=3 s=4", "a=1-2 b=3"},
		"no sharer":           {map[string]Set{"a": a, "b": b}, "a=1-2 b=3", "a=1-2 b=3"},
		"not its number":      {map[string]Set{"a": NewSet(1), "b": b, "s": s}, "b=3", "b=3"},
		"the same CPU twice":  {map[string]Set{"a": a, "b": NewSet(2), "s": s}, "a=1-2", "a=1-2"},
		"only the sharer":     {map[string]Set{"s": NewSet(5, 6, 7)}, "", ""},
		"one that is no more": {map[string]Set{"x": a}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.whole, Confirmed(pod, Record{Containers: test.seen}, true).String())
			require.Equal(t, test.each, Confirmed(pod, Record{Containers: test.seen}, false).String())
		})
	}
}

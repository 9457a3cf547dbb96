// SPDX-License-Identifier: Apache-2.0

package topologymanager_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"k8s.io/klog/v2"
	theirs "k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"

	ours "github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// merges is how many random merges are compared, a few seconds' worth unless
// PODSLICE_SCENARIOS says otherwise. The long run is a million:
//
//	PODSLICE_SCENARIOS=1000000 go test ./test/differential/topologymanager -run Alike -v -timeout 60m
func merges(t *testing.T) int {
	text := os.Getenv("PODSLICE_SCENARIOS")
	if text == "" {
		return 60_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("PODSLICE_SCENARIOS is %q: %v", text, err)
	}
	return n
}

// compare lets every policy merge the answers on both sides, and reports how
// many of the policies admit them.
func (w world) compare(t *testing.T, answers []answer) (admitted int) {
	t.Helper()
	silent := klog.Logger{}
	var our []map[string][]ours.TopologyHint
	var their []map[string][]theirs.TopologyHint
	for _, a := range answers {
		our = append(our, in(a, hint.ours))
		their = append(their, in(a, hint.theirs))
	}
	for name, policy := range policies {
		got, gotAdmit := policy.ours(w.ours()).Merge(silent, our)
		want, wantAdmit := policy.theirs(w.theirs()).Merge(silent, their)
		if textOfOurs(got) != textOfTheirs(want) || gotAdmit != wantAdmit {
			t.Fatalf("%s: ours %s, admit %t; upstream's %s, admit %t; for %+v %+v",
				name, textOfOurs(got), gotAdmit, textOfTheirs(want), wantAdmit, w, answers)
		}
		if gotAdmit {
			admitted++
		}
	}
	return admitted
}

// TestRandomMergesAlike has up to 8 nodes, 4 providers and 5 resources, with
// lists of any kind and lists as real providers give them. Every tenth problem
// is compared in another order of providers as well; upstream puts the
// resources of a provider in a random order by itself.
func TestRandomMergesAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	want, done, problems, admitted := merges(t), 0, 0, 0
	for done < want {
		w := randomWorld(r)
		var answers []answer
		if r.IntN(3) == 0 {
			answers = w.likelyAnswers(r)
		} else {
			answers = []answer{w.randomAnswer(r, "gpu", "nic"), w.randomAnswer(r, "cpu"), w.randomAnswer(r, "memory"), w.randomAnswer(r, "fpga")}
			answers = answers[:1+r.IntN(4)]
		}
		problems++
		admitted += w.compare(t, answers)
		done += len(policies)
		if problems%10 == 0 {
			r.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
			w.compare(t, answers)
			done += len(policies)
		}
	}
	t.Logf("%d merges of %d problems are alike; %d were admitted", done, problems, admitted)
	if admitted < done/10 {
		t.Errorf("only %d of %d merges admitted anything: the generator is of no use", admitted, done)
	}
}

// likelyAnswers are what the managers of CPUs, memory and devices would say: all
// masks with enough room, of which those are preferred that are as narrow as an
// idle machine allows. The more providers, the fewer nodes: upstream's work is
// the product of the lists.
func (w *world) likelyAnswers(r *rand.Rand) (answers []answer) {
	providers := 1 + r.IntN(4)
	if limit := []int{8, 6, 4, 3}[providers-1]; len(w.ids) > limit {
		w.ids = w.ids[:limit]
		rows := map[int][]uint64{}
		for _, id := range w.ids {
			if w.rows[id] != nil {
				rows[id] = w.rows[id][:limit]
			} else {
				rows[id] = nil
			}
		}
		w.rows = rows
	}
	for _, name := range []string{"cpu", "memory", "gpu", "nic"}[:providers] {
		total, free := make([]int, len(w.ids)), make([]int, len(w.ids))
		sum := 0
		for i := range w.ids {
			total[i] = r.IntN(5)
			free[i] = r.IntN(total[i] + 1)
			if r.IntN(2) == 0 {
				free[i] = total[i]
			}
			sum += total[i]
		}
		request := 1 + r.IntN(max(1, sum*2/3))
		list := []hint{}
		narrowest := len(w.ids)
		for mask := 1; mask < 1<<len(w.ids); mask++ {
			all, now := 0, 0
			nodes := []int{}
			for i, id := range w.ids {
				if mask>>i&1 == 1 {
					all, now, nodes = all+total[i], now+free[i], append(nodes, id)
				}
			}
			if all >= request {
				narrowest = min(narrowest, len(nodes))
			}
			if now >= request {
				list = append(list, hint{nodes: nodes})
			}
		}
		for i := range list {
			list[i].preferred = len(list[i].nodes) == narrowest
		}
		answers = append(answers, answer{name: list})
	}
	return answers
}

// TestSmallMergesAlike goes through all lists of at most two hints (one, where
// there are three resources on three nodes), for one to three resources on one
// to three nodes. Which resource has which list does not matter, so each
// combination comes once.
func TestSmallMergesAlike(t *testing.T) {
	total := 0
	for n := 1; n <= 3; n++ {
		for resources := 1; resources <= 3; resources++ {
			longest := 2
			if n*resources > 6 {
				longest = 1
			}
			lists := allLists(n, longest)
			for _, closest := range []bool{false, true} {
				w := world{rows: map[int][]uint64{}, closest: closest}
				for id := range n {
					w.ids = append(w.ids, id)
					w.rows[id] = [][]uint64{{10, 21, 20}, {21, 10, 22}, {20, 22, 10}}[id][:n]
				}
				var choose func(from int, chosen []answer)
				choose = func(from int, chosen []answer) {
					if len(chosen) == resources {
						w.compare(t, chosen)
						total += len(policies)
						return
					}
					for i := from; i < len(lists); i++ {
						choose(i, append(chosen, answer{fmt.Sprint("r", len(chosen)): lists[i]}))
					}
				}
				choose(0, nil)
			}
		}
	}
	t.Logf("%d merges are alike", total)
}

// allLists are nil, the empty list and all of up to longest different hints, on
// nodes 0 to n-1 or any.
func allLists(n, longest int) [][]hint {
	var alphabet []hint
	for mask := 0; mask < 1<<n; mask++ {
		var nodes []int // mask 0 stands for any
		for id := range n {
			if mask>>id&1 == 1 {
				nodes = append(nodes, id)
			}
		}
		alphabet = append(alphabet, hint{nodes, false}, hint{nodes, true})
	}
	lists := [][]hint{nil, {}}
	for i, a := range alphabet {
		lists = append(lists, []hint{a})
		for _, b := range alphabet[i+1:] {
			if longest > 1 {
				lists = append(lists, []hint{a, b})
			}
		}
	}
	return lists
}

func TestMergersAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 10_000 {
		w := randomWorld(r)
		var our [][]ours.TopologyHint
		var their [][]theirs.TopologyHint
		for range r.IntN(4) {
			list := w.randomAnswer(r, "x")["x"]
			our = append(our, in(answer{"": list}, hint.ours)[""])
			their = append(their, in(answer{"": list}, hint.theirs)[""])
		}
		ourInfo, ourOpts := w.ours()
		theirInfo, theirOpts := w.theirs()
		got := ours.NewHintMerger(ourInfo, our, ours.PolicyRestricted, ourOpts).Merge()
		want := theirs.NewHintMerger(theirInfo, their, theirs.PolicyRestricted, theirOpts).Merge()
		if textOfOurs(got) != textOfTheirs(want) {
			t.Fatalf("ours %s, upstream's %s, for %+v %+v", textOfOurs(got), textOfTheirs(want), w, our)
		}
	}
}

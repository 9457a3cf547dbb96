// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/witness"
)

// How many starts of exclusive containers are tried, if EXCLUSIVE_STARTS says
// nothing else.
const defaultStarts = 6

// exclusivePeriod is the reconcile period of the kubelet under test, if
// EXCLUSIVE_PERIOD says nothing else. By default a kubelet's is 10 s, ten times
// what a container needs to start. On an emulated machine it needs far more, and
// with 10 s the next period would come before most starts and hide what was
// missed at admission.
const exclusivePeriod = time.Minute

// Waits, by the host's clock.
const (
	limitStarts = 10 * time.Minute
	settle      = time.Second
)

// tally is what came of all starts.
type tally struct {
	starts, unused   int
	overlapped, ran  int
	longest, overlap time.Duration // the longest, and the sum of all
	closest          time.Duration // shortest time between a sharer's last visit and a start that was not overlapped
}

// TestExclusiveFromFirstInstruction starts exclusive containers while a
// container of the node shared pool spins over every CPU that it is allowed.
// Nothing of a shared pool may run on an exclusive container's CPUs from the
// container's first act on (package witness says how that is known).
//
// In each round the pool first has all CPUs again, and has been seen on them;
// then single containers, pods of several, and pods with a budget whose sidecars
// spin in their pod's shared pool come at once, and with them another container
// of the node shared pool, whose cpuset may be out of date when it starts. A
// start counts if a sharer was on all of its CPUs in that round: somebody had to
// be moved. Containers that are started again keep their CPUs; they are counted
// apart.
//
// Upstream's kubelet moves containers off only once in a reconcile period. With
// KUBELET=stock the test says how often that shows, and asserts that it does.
func TestExclusiveFromFirstInstruction(t *testing.T) {
	onlyWhole(t)
	want := defaultStarts
	if s := os.Getenv("EXCLUSIVE_STARTS"); s != "" {
		var err error
		if want, err = strconv.Atoi(s); err != nil || want < 1 {
			t.Fatalf("EXCLUSIVE_STARTS is %q: want a number above 0", s)
		}
	}
	period := exclusivePeriod
	if s := os.Getenv("EXCLUSIVE_PERIOD"); s != "" {
		var err error
		if period, err = time.ParseDuration(s); err != nil {
			t.Fatalf("EXCLUSIVE_PERIOD: %v", err)
		}
	}
	w := startWitness(t, period)
	var first, again tally
	for round := 0; first.starts < want; round++ {
		if round > want {
			t.Fatalf("%d starts in %d rounds: the others are on CPUs that were not shared before", first.starts, round)
		}
		w.round(t, round, want-first.starts, &first, &again)
	}
	say("exclusive: %s; reconcile period %s", first, period)
	say("exclusive, started again: %s", again)
	// Our kubelet counts the starts that it did not hold up long enough.
	if unsettled, err := w.n.Metric(ctx, "kubelet_cpu_manager_unsettled_container_starts_total"); err == nil {
		waited, err := w.n.Metric(ctx, "kubelet_cpu_manager_container_start_wait_seconds_sum")
		must(t, err)
		say("exclusive: all starts together were held up for %.1f s; %v of them not long enough", waited, unsettled)
	}
	if stock := strings.HasSuffix(os.Getenv("PODSLICE_KUBELET"), "-stock"); stock {
		if first.overlapped == 0 {
			t.Error("no overlap with upstream's kubelet: this test would not see one, or all containers started after the first period (EXCLUSIVE_PERIOD=5m)")
		}
		return
	}
	if first.overlapped+again.overlapped > 0 {
		t.Error("containers with exclusive CPUs were not alone on them")
	}
}

func (s tally) String() string {
	text := fmt.Sprintf("%d starts, %d overlapped (longest %d ms)", s.starts, s.overlapped, s.longest.Milliseconds())
	if s.overlapped > 0 {
		text += fmt.Sprintf(", on average %d ms; a task was caught in %d of them", (s.overlap / time.Duration(s.overlapped)).Milliseconds(), s.ran)
	}
	if s.overlapped < s.starts {
		text += fmt.Sprintf("; else a sharer had been there %d ms before or earlier", s.closest.Milliseconds())
	}
	if s.unused > 0 {
		text += fmt.Sprintf("; %d more on CPUs that nobody had shared, not counted", s.unused)
	}
	return text
}

func (s *tally) add(v witness.Verdict) {
	s.starts++
	if v.Alone() {
		if s.closest == 0 || v.Before < s.closest {
			s.closest = v.Before
		}
		return
	}
	s.overlapped++
	if len(v.Ran) > 0 {
		s.ran++
	}
	s.longest, s.overlap = max(s.longest, v.Overlap), s.overlap+v.Overlap
}

// witnessed is a node with a spinning container in its shared pool.
type witnessed struct {
	n    *node.Node
	pool cpuset.CPUSet // what exclusive containers can get
	seen int           // lines of the starts file that are dealt with
}

func startWitness(t *testing.T, period time.Duration) *witnessed {
	n := freshNode(t)
	_, err := n.Guest.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s", witnessFolder))
	must(t, err)
	config := node.Pinned(shape, "single-numa-node", "pod")
	config.ReconcilePeriod = period
	must(t, n.AddPods(ctx, sharingPod(t, "spinner", spinnerPause)))
	must(t, n.StartKubelet(ctx, config))
	all := parse(t, fmt.Sprintf("0-%d", shape.CPUs()-1))
	return &witnessed{n: n, pool: all.Difference(parse(t, config.ReservedCPUs))}
}

// await waits until sharers are on all CPUs that can become exclusive.
func (w *witnessed) await(t *testing.T) witness.Reading {
	t.Helper()
	return w.reading(t, "await "+w.pool.String())
}

func (w *witnessed) reading(t *testing.T, verb string) witness.Reading {
	t.Helper()
	out, err := w.n.Guest.Output(ctx, fmt.Sprintf("%s/cpuwitness -dir %s %s", node.Programs, witnessFolder, verb))
	must(t, err)
	var r witness.Reading
	must(t, json.Unmarshal([]byte(out), &r))
	return r
}

// starts waits until so many owners have recorded their starts since it was
// called last.
func (w *witnessed) starts(t *testing.T, count int) []witness.Start {
	t.Helper()
	limit, cancel := context.WithTimeout(ctx, limitStarts)
	defer cancel()
	for {
		r, err := w.n.Guest.Run(limit, fmt.Sprintf("tail -n +%d %s", w.seen+1, path.Join(witnessFolder, "starts")))
		if err != nil {
			t.Fatalf("%d starts are missing: %v", count, err)
		}
		// The file is not there before the first start.
		if lines := strings.Fields(r.Stdout); r.ExitCode == 0 && len(lines) >= count {
			w.seen += len(lines)
			var starts []witness.Start
			for _, line := range lines {
				var s witness.Start
				must(t, json.Unmarshal([]byte(line), &s))
				starts = append(starts, s)
			}
			return starts
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// round runs one round of pods, for so many starts or as many as fit.
func (w *witnessed) round(t *testing.T, round, want int, first, again *tally) {
	since := w.await(t)
	began := time.Now()
	pods, owners := roundPods(t, round, want)
	must(t, w.n.AddPods(ctx, pods...))
	starts := w.starts(t, owners)
	running := time.Since(began)
	time.Sleep(settle)

	// One of them is killed, and the kubelet starts it again.
	victim := starts[round%len(starts)]
	_, err := w.n.Guest.Output(ctx, fmt.Sprintf("kill -9 %d", victim.PID))
	must(t, err)
	restarted := w.starts(t, 1)
	time.Sleep(settle)

	end := w.reading(t, "board")
	taken := cpuset.New()
	for _, s := range starts {
		own := cpuset.New(s.CPUs...)
		if both := own.Intersection(taken); !both.IsEmpty() || !own.IsSubsetOf(w.pool) {
			t.Fatalf("%s has CPUs %s, of which %s are another's; CPUs %s can be given out", s.Name, own, both, w.pool)
		}
		taken = taken.Union(own)
		v := s.Judge(since.Now, end)
		if len(v.Unused) > 0 {
			first.unused++
			continue
		}
		first.add(v)
		tell(s, v)
	}
	for _, s := range restarted {
		if s.Name != victim.Name || !slices.Equal(s.CPUs, victim.CPUs) {
			t.Fatalf("%s was killed on CPUs %v, and %s started on %v", victim.Name, victim.CPUs, s.Name, s.CPUs)
		}
		v := s.Judge(since.Now, end)
		again.add(v)
		tell(s, v)
	}
	say("round %d: %d starts within %.0f s, the round took %.0f s; %s", round, len(starts), running.Seconds(), time.Since(began).Seconds(), first)
	must(t, w.n.DropPods(ctx, pods...))
}

// tell says what is wrong with a start.
func tell(s witness.Start, v witness.Verdict) {
	if v.Alone() {
		return
	}
	say("%s on CPUs %s was not alone for %d ms: others were allowed on %s and caught on %s",
		s.Name, cpuset.New(s.CPUs...), v.Overlap.Milliseconds(), cpuset.New(v.Allowed...), cpuset.New(v.Ran...))
}

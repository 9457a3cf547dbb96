// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/test/differential/scenario"
)

// How many scenarios are run, and with which first seed. "make test-long" asks
// for 100,000.
const (
	countVariable = "PODSLICE_SCENARIOS"
	seedVariable  = "PODSLICE_SEED"
	defaultCount  = 1000
)

// optionSets are the sets of options that may be on. Some come more often.
var optionSets = [][]string{
	nil, nil, nil,
	{scenario.FullPCPUs}, {scenario.FullPCPUs}, {scenario.Strict}, {scenario.Strict, scenario.FullPCPUs},
	{scenario.AcrossCores}, {scenario.AcrossCores, scenario.Strict},
	{scenario.BySocket}, {scenario.BySocket, scenario.FullPCPUs}, {scenario.BySocket, scenario.AcrossCores},
	{scenario.Uncore}, {scenario.Uncore, scenario.FullPCPUs}, {scenario.Uncore, scenario.BySocket},
	{scenario.AcrossNUMA}, {scenario.AcrossNUMA, scenario.FullPCPUs}, {scenario.AcrossNUMA, scenario.BySocket},
	{scenario.AcrossNUMA, scenario.BySocket, scenario.FullPCPUs},
}

// limitsOf has up to four NUMA nodes, and up to eight in one scenario of 25.
func limitsOf(seed uint64, podLevel bool) scenario.Limits {
	limits := scenario.Limits{Nodes: 4, Options: optionSets, PodLevel: &podLevel}
	if seed%25 == 0 {
		limits.Nodes = 8
	}
	return limits
}

func number(name string, fallback int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return fallback
}

// block is how many scenarios in a row have the same gates, which are those of
// the process.
const block = 250

func podLevelOf(seed uint64) bool { return seed/block%4 != 3 }

// TestScenarios runs our CPU manager and the kubelet's own over the same
// scenarios. They decide the same, or differ by a fault of the kubelet's own.
func TestScenarios(t *testing.T) {
	count, first := number(countVariable, defaultCount), number(seedVariable, 0)
	sum := newTally()
	start := time.Now()
	workers := make([]*worker, 2)
	for i := range workers {
		workers[i] = newWorker(t)
	}
	for at := first; at < first+count && !t.Failed(); {
		end := min(first+count, (at/block+1)*block)
		podLevel := podLevelOf(uint64(at))
		setGates(podLevel)
		seeds := make(chan uint64)
		var group sync.WaitGroup
		for _, w := range workers {
			group.Go(func() {
				for seed := range seeds {
					w.run(t, seed, podLevel, sum)
				}
			})
		}
		for seed := at; seed < end; seed++ {
			seeds <- uint64(seed)
		}
		close(seeds)
		group.Wait()
		at = end
		if done := at - first; done%10_000 < block && done < count {
			t.Logf("%d of %d scenarios in %s", done, count, time.Since(start).Round(time.Second))
		}
	}
	t.Logf("%d scenarios from seed %d in %s\n%s", count, first, time.Since(start).Round(time.Second), sum)
	require.Empty(t, sum.unexplained, "differences that no known fault explains")
	if count >= 100 {
		require.Greater(t, sum.equal, sum.calls*8/10)
		require.Greater(t, sum.admitted, count)
	}
}

// worker runs scenarios with a child process of its own.
type worker struct {
	dir   string
	child *child
}

func newWorker(t testing.TB) *worker {
	dir := scratch()
	w := &worker{dir: filepath.Join(dir, "ours"), child: newChild(filepath.Join(dir, "theirs"))}
	require.NoError(t, os.Mkdir(w.dir, 0o755))
	require.NoError(t, os.Mkdir(w.child.dir, 0o755))
	t.Cleanup(func() {
		w.child.stop()
		_ = os.RemoveAll(dir)
	})
	return w
}

func (w *worker) run(t testing.TB, seed uint64, podLevel bool, sum *tally) {
	s := scenario.Generate(seed, limitsOf(seed, podLevel))
	played := playOurs(s, w.dir, false)
	result, err := compare(played, w.child)
	if err != nil {
		t.Errorf("the kubelet's own manager ended its process: %v\n%s", err, s)
		return
	}
	sum.add(played, result)
	for _, d := range result.disagreements {
		faults, err := explain(d)
		if err != nil {
			sum.unexplain(d)
			t.Errorf("unexplained difference (%s=%d %s=1 runs this scenario alone): %v\n%s", seedVariable, seed, countVariable, err, d)
			continue
		}
		sum.explain(faults, seed)
	}
}

// tally counts what came of many scenarios.
type tally struct {
	mu                     sync.Mutex
	calls, equal, admitted int
	scenarios, same        int
	classes                map[fault]*class
	unexplained            []string
}

func newTally() *tally { return &tally{classes: map[fault]*class{}} }

// class is a fault with the differences that it makes.
type class struct {
	alone, together int
	seed            uint64
}

func (c *tally) add(played *trace, result comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scenarios++
	c.calls += result.played
	c.equal += result.played - len(result.disagreements)
	if len(result.disagreements) == 0 {
		c.same++
	}
	for _, call := range played.calls {
		if call.Op == opAdmitted {
			c.admitted++
		}
	}
}

func (c *tally) unexplain(d *disagreement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unexplained = append(c.unexplained, fmt.Sprintf("seed %d, %s", d.trace.scenario.Seed, d.call))
}

// explain counts a difference under the first of the faults that it takes.
func (c *tally) explain(faults fault, seed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := faults & -faults
	known, seen := c.classes[first]
	if !seen {
		known = &class{seed: seed}
		c.classes[first] = known
	}
	if faults == first {
		known.alone++
	} else {
		known.together++
	}
}

// String is the table of the classes.
func (c *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenarios %d, without any difference %d; pods admitted %d\ncalls %d: equal outcome %d, different %d, unexplained %d\n",
		c.scenarios, c.same, c.admitted, c.calls, c.equal, c.calls-c.equal, len(c.unexplained))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault of the kubelet's own\talone\twith later ones\te.g. seed\t")
	for f := fault(1); f < endOfFaults; f <<= 1 {
		each, seen := c.classes[f]
		if !seen {
			each = &class{}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", f, each.alone, each.together, each.seed, f.what())
	}
	_ = w.Flush()
	return b.String()
}

// FuzzScenario runs any scenario on both sides.
func FuzzScenario(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, seed%2 == 0)
	}
	w := newWorker(f)
	f.Fuzz(func(t *testing.T, seed uint64, podLevel bool) {
		setGates(podLevel)
		w.run(t, seed, podLevel, newTally())
	})
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
)

// TestModel makes up events and looks at everything after each.
func TestModel(t *testing.T) {
	registerMetrics(t)
	events, seed := number("PODSLICE_EVENTS", 10_000), uint64(number("PODSLICE_SEED", 1))
	p := player{dir: scratch(t), replays: 4000}
	// Nearly everything that is made is gone soon, and little is there at a time.
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	begin := time.Now()
	nodes, count := 0, 0
	kinds, seen := map[string]int{}, map[string]int{}
	for ; count < events; nodes++ {
		g := newGenerator(seed+uint64(nodes), 40+nodes%80)
		done := p.play(t, g.next)
		count += len(done.events)
		for _, e := range done.events {
			kinds[e.name()]++
		}
		for what, n := range done.seen {
			seen[what] += n
		}
		if done.err != nil {
			small := p.shrink(t, done)
			t.Fatalf("seed %d, %d events: %v\nmade smaller: %v\n%s", seed+uint64(nodes), len(done.events), done.err, small.err, small.script())
		}
	}
	took := time.Since(begin)
	t.Logf("%d events on %d nodes in %s, %.0f a second: %v %v", count, nodes, took.Round(time.Millisecond), float64(count)/took.Seconds(), kinds, seen)
	for _, what := range []string{
		"pods with a budget", "pods with exclusive containers", "pods without CPUs", "pods refused", "pods killed",
		"pods that lose CPUs", "pods given CPUs later", "pods released", "resizes that change something",
	} {
		require.Greaterf(t, seen[what], count/1000, "%s: the events are of little use", what)
	}
}

func number(variable string, otherwise int) int {
	if value, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return value
	}
	return otherwise
}

// registerMetrics lets the counters count; those of pod-level resources are there
// only if the gate is on.
func registerMetrics(t *testing.T) {
	t.Helper()
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.PodLevelResourceManagers, true)
	kubeletmetrics.Register()
}

// scratch is a folder in memory where there is one: writes are flushed, and a disk
// would make the run many times as long.
func scratch(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "podslice-model")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// clean empties the folder.
func (p player) clean(t *testing.T) {
	entries, err := os.ReadDir(p.dir)
	require.NoError(t, err)
	for _, entry := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(p.dir, entry.Name())))
	}
}

// resetCounts begins to count.
func resetCounts(w *world) (err error) {
	w.counts, err = readCounts()
	return err
}

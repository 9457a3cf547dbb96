// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/nodeconfig"
	"github.com/podslice/podslice/pkg/workload"
)

// largeMachine has 4,096 CPUs on as many nodes as given.
func largeMachine(tb testing.TB, nodes int) machine.Machine {
	var b strings.Builder
	b.WriteString("name: large\nnodes:\n")
	per := 4096 / nodes
	for i := range nodes {
		fmt.Fprintf(&b, "- {id: %d, memory: %dGi, distances: 20x%d 10 20x%d}\n", i, 32768/nodes, i, nodes-1-i)
	}
	b.WriteString("cpus:\n")
	for i := range nodes {
		fmt.Fprintf(&b, "- {cpus: \"%d-%d\", threads: 2, socket: %d, node: %d, cache: %d}\n", i*per, (i+1)*per-1, i, i, i)
	}
	text := strings.ReplaceAll(strings.ReplaceAll(b.String(), "20x0 ", ""), " 20x0", "")
	m, err := machine.Parse("large.yaml", []byte(text))
	require.NoError(tb, err)
	return m
}

// manyPods are a thousand, of three kinds.
func manyPods(tb testing.TB) []workload.Pod {
	const manifests = `
kind: Deployment
metadata: {name: db}
spec:
  replicas: 300
  template:
    spec:
      resources: {limits: {cpu: 6, memory: 8Gi}, requests: {cpu: 6, memory: 8Gi}}
      initContainers: [{name: exporter, restartPolicy: Always}]
      containers: [{name: db, resources: {limits: {cpu: 4, memory: 6Gi}}}]
---
kind: Deployment
metadata: {name: train}
spec:
  replicas: 500
  template: {spec: {containers: [{name: a, resources: {limits: {cpu: 4, memory: 8Gi}}}, {name: b, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}
---
kind: Deployment
metadata: {name: web}
spec:
  replicas: 200
  template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m}}}]}}
`
	w, err := workload.Read([]string{"-"}, strings.NewReader(manifests), workload.Options{})
	require.NoError(tb, err)
	require.Len(tb, w.Pods, 1000)
	return w.Pods
}

func planLarge(tb testing.TB, nodes int, scope string, explain bool) Report {
	n, decided := largeNode(tb, nodes, scope, explain).AdmitAll(manyPods(tb), func(int, int) {})
	return n.Report(decided)
}

func largeNode(tb testing.TB, nodes int, scope string, explain bool) Node {
	m := largeMachine(tb, nodes)
	text := strings.Replace(Assumed(m), "Scope: pod", "Scope: "+scope, 1) + "maxPods: 2000\n"
	config, err := nodeconfig.Read("config", []byte(text))
	require.NoError(tb, err)
	on, err := config.For(m)
	require.NoError(tb, err)
	s := SettingsOf(on)
	s.Explain = explain
	return NewNode(s, cpuplan.State{}, memplan.Records{})
}

// TestLarge: a thousand pods on 4,096 CPUs take about a second of an idle machine. The
// bound is for one that is busy, and on which the race detector may be at work.
func TestLarge(t *testing.T) {
	for _, scope := range []string{"pod", "container"} {
		before := cpuTime(t)
		r := planLarge(t, 8, scope, scope == "pod")
		took := cpuTime(t) - before
		t.Logf("scope %s: %s, %d refused", scope, took, r.Refused())
		require.Less(t, took, 15*time.Second)
		require.Less(t, r.Refused(), 300)
		require.Positive(t, r.Refused())
	}
}

// TestReplicasAlike admits all pods for themselves, which must come to the same as
// taking the word of a replica that was refused for the next one.
func TestReplicasAlike(t *testing.T) {
	n := largeNode(t, 2, "pod", false)
	pods := manyPods(t)
	after, decided := n.AdmitAll(pods, func(int, int) {})
	refused := 0
	for i, p := range pods {
		next, verdict := n.Admit(p.Pod)
		n = next
		require.Equal(t, verdict, decided[i].Verdict, "%s", p.Name)
		if !verdict.Admitted {
			refused++
		}
	}
	require.Greater(t, refused, 100)
	require.Equal(t, n.Report(decided), after.Report(decided))
}

// cpuTime is the time that this process has been at work.
func cpuTime(tb testing.TB) time.Duration {
	var usage unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkThousandPods collects garbage as seldom as the command line does.
func BenchmarkThousandPods(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, nodes := range []int{1, 8, 16, 32} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				planLarge(b, nodes, "pod", false)
			}
		})
	}
}

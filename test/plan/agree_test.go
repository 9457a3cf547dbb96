// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/plan"
	"github.com/podslice/podslice/test/simnode"
)

// both are the managers and a plan, of the same node.
type both struct {
	t    *testing.T
	node *simnode.Node
	plan plan.Node
	pods []*v1.Pod
}

func newBoth(t *testing.T, n *simnode.Node) *both {
	return &both{t: t, node: n, plan: plan.NewNode(settingsOf(t, n), cpuplan.State{}, memplan.Records{})}
}

// admit asks both, and holds what they say against each other.
func (b *both) admit(text string) plan.Verdict {
	pod, err := simnode.ParsePod(text)
	require.NoError(b.t, err, text)
	b.node.Add(pod)
	result := b.node.Admit(pod)
	next, verdict := b.plan.Admit(pod)
	b.plan = next
	require.Equal(b.t, result.Admit, verdict.Admitted, "%s\nkubelet: %s: %s\nplan: %s: %s", text, result.Reason, result.Message, verdict.Reason, verdict.Message)
	require.Equal(b.t, result.Reason, verdict.Reason, text)
	require.Equal(b.t, result.Message, verdict.Message, text)
	if result.Admit {
		b.pods = append(b.pods, pod)
	} else {
		b.node.Remove(pod.Name)
	}
	return verdict
}

// compare holds what every pod has against each other.
func (b *both) compare() {
	n := b.node
	require.Equal(b.t, n.CPUPolicy == "none", b.plan.CPUs == nil)
	if b.plan.CPUs != nil {
		require.Equal(b.t, n.CPU.State().GetDefaultCPUSet().String(), b.plan.SharedCPUs().String())
	}
	advisor := n.CPU.(cpumanager.QuotaAdvisor)
	for _, pod := range b.pods {
		uid, given := string(pod.UID), b.plan.Given(pod)
		require.Equal(b.t, n.CPU.GetPodCPUs(uid).String(), given.CPUs.String(), pod.Name)
		var blocks []string
		for _, m := range n.Memory.GetPodMemory(uid) {
			blocks = append(blocks, fmt.Sprintf("%s %s on %s", m.Type, numa.Bytes(m.Size), cpuset.New(m.NUMAAffinity...)))
		}
		require.Equal(b.t, blocks, blockTexts(given.Memory), pod.Name)
		lifted, known := advisor.PodQuotaLifted(n.Logger, pod, 0)
		if known {
			limit := pod.Spec.Resources.Limits.Cpu().MilliValue()
			require.Equal(b.t, lifted || limit == 0, given.Quota.Micros == 0, "%s: %v", pod.Name, given.Quota)
		}
		at := 0
		for c := range simnode.Containers(pod) {
			is := given.Containers[at]
			at++
			what := pod.Name + "/" + c.Name
			require.Equal(b.t, c.Name, is.Name)
			require.EqualValues(b.t, n.CPU.GetResourceIsolationLevel(pod, c), is.CPUIsolation, what)
			require.EqualValues(b.t, n.Memory.GetResourceIsolationLevel(pod, c), is.MemoryIsolation, what)
			if b.plan.CPUs != nil {
				require.Equal(b.t, n.CPU.GetCPUAffinity(uid, c.Name).String(), is.CPUs.String(), what)
			}
			nodes := n.Memory.GetMemoryNUMANodes(n.Logger, pod, c).UnsortedList()
			require.Equal(b.t, cpuset.New(nodes...).String(), is.Nodes.String(), what)
			blocks = nil
			for _, m := range n.Memory.GetMemory(n.Logger, uid, c.Name) {
				blocks = append(blocks, fmt.Sprintf("%s %s on %s", m.Type, numa.Bytes(m.Size), cpuset.New(m.NUMAAffinity...)))
			}
			require.Equal(b.t, blocks, blockTexts(is.Memory), what)
			limit := c.Resources.Limits.Cpu()
			if limit.IsZero() && pod.Spec.Resources != nil {
				limit = pod.Spec.Resources.Limits.Cpu()
			}
			limit = advisor.LowerCPULimit(pod, c, limit, 0)
			if is.CPUIsolation == "container" {
				limit = &resource.Quantity{}
			}
			require.Equal(b.t, limit.MilliValue()*100, is.Quota.Micros, what)
		}
	}
}

func blockTexts(blocks []memplan.Block) (texts []string) {
	for _, b := range blocks {
		texts = append(texts, fmt.Sprintf("%s %s on %s", b.Resource, numa.Bytes(b.Size), b.Nodes))
	}
	return texts
}

// settingsText names a node's settings for a failure.
func settingsText(n *simnode.Node) string {
	return fmt.Sprintf("policy %s, scope %s, gate %t, %s %v, %s, options %v, reserved %q or %d", n.TopologyPolicy, n.Scope, n.Gate, n.CPUPolicy, n.CPUOptions, n.MemoryPolicy, n.TopologyOptions, n.ReservedCPUs, n.Reserve)
}

// TestAgrees plans for random pods on random nodes, and on every machine of the
// catalogue, what the managers then do. PODSLICE_SCENARIOS is how many nodes.
func TestAgrees(t *testing.T) {
	nodes := 120
	if n, err := strconv.Atoi(os.Getenv("PODSLICE_SCENARIOS")); err == nil {
		nodes = n
	}
	seed := uint64(1)
	if n, err := strconv.Atoi(os.Getenv("PODSLICE_SEED")); err == nil {
		seed = uint64(n)
	}
	names := catalog.Names()
	admitted, refused, unstarted := 0, map[string]int{}, 0
	for i := range nodes {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		name := ""
		if i%5 == 0 {
			name = names[i/5%len(names)]
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			n := newNode(t)
			g.node(n, name)
			if err := n.Start(); err != nil {
				unstarted++
				return
			}
			var played []string
			defer func() {
				if t.Failed() {
					t.Logf("seed %d, machine %q: %s\n%s", seed, name, settingsText(n), strings.Join(played, "\n"))
				}
			}()
			b := newBoth(t, n)
			for p := range 4 + g.IntN(14) {
				played = append(played, g.pod(fmt.Sprintf("p%d", p)))
				if verdict := b.admit(played[p]); verdict.Admitted {
					admitted++
				} else {
					refused[verdict.Reason]++
				}
			}
			b.compare()
			n.Stop()
		})
	}
	t.Logf("%d nodes, %d of which could not be; %d pods admitted, refused %v", nodes, unstarted, admitted, refused)
	require.Less(t, unstarted, nodes/4)
	require.Greater(t, admitted, nodes)
	for _, reason := range []string{"TopologyAffinityError", "UnexpectedAdmissionError"} {
		require.Positive(t, refused[reason], reason)
	}
	if nodes >= 100 {
		require.Positive(t, refused["SMTAlignmentError"])
		require.Positive(t, refused["EmptyPodSharedPoolError"])
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// newNode is a node whose state files are in memory if that is possible.
func newNode(t *testing.T) *simnode.Node {
	n := simnode.New(t)
	if dir, err := os.MkdirTemp("/dev/shm", "podslice"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		n.Dir = dir
	}
	return n
}

// written are pods of every kind, in an order that fills the small machines.
var written = []string{
	"db cpu=8 memory=16Gi\nsidecar exporter\nsidecar backup\napp database cpu=6 memory=12Gi",
	"one\napp a cpu=1 memory=1Gi",
	"ml cpu=4 memory=8Gi\nsidecar mesh\napp training cpu=3 memory=6Gi",
	"init\ninit prepare cpu=3 memory=2Gi\nsidecar s cpu=1 memory=1Gi\napp a cpu=2 memory=1Gi",
	"fraction cpu=2500m memory=2Gi\napp a cpu=1 memory=1Gi",
	"empty cpu=2 memory=2Gi\napp a cpu=2 memory=2Gi\napp b",
	"odd\napp a cpu=3 memory=1Gi",
	"burstable\napp a cpu=1<2 memory=1Gi",
	"effort\napp a",
	"memory cpu=2 memory=4Gi\napp a cpu=1 memory=1Gi<2Gi\napp b",
	"wide\napp a cpu=20 memory=40Gi",
	"huge cpu=2 memory=2Gi hugepages-2Mi=64Mi\napp a cpu=1 memory=1Gi hugepages-2Mi=64Mi\napp b",
	"last\napp a cpu=2 memory=8Gi",
}

// TestAgreesEverywhere admits the same pods on every machine of the catalogue under
// every policy, scope and option.
func TestAgreesEverywhere(t *testing.T) {
	names := catalog.Names()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for _, policy := range []string{"none", "best-effort", "restricted", "single-numa-node"} {
				for _, scope := range []string{"container", "pod"} {
					for i, options := range slices.Compact(slices.Clone(cpuOptionTexts())) {
						if testing.Short() && i > 2 || policy == "none" && scope == "pod" {
							continue
						}
						n := newNode(t)
						n.Info, n.TopologyPolicy, n.Scope, n.Reserve = must(catalog.Get(name)).MachineInfo(), policy, scope, 2
						n.CPUOptions = map[string]string{}
						for _, option := range strings.Fields(options) {
							n.CPUOptions[option] = "true"
						}
						if n.Start() != nil {
							continue // the option is not for this policy or machine
						}
						b := newBoth(t, n)
						for _, text := range written {
							b.admit(text)
						}
						b.compare()
						n.Stop()
					}
				}
			}
		})
	}
}

func cpuOptionTexts() (texts []string) {
	for _, options := range cpuOptions {
		texts = append(texts, strings.Join(options, " "))
	}
	return texts
}

// SPDX-License-Identifier: Apache-2.0

package semantics

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cmqos "k8s.io/kubernetes/pkg/kubelet/cm/qos"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
)

const mi, gi = 1 << 20, 1 << 30

// wants are what a container can ask for: nothing, a slice, and what is less
// plain.
var wants = []container{
	{text: ""},
	{text: "cpu=2 memory=2Gi", asks: amounts{2000, map[string]int64{"memory": 2 * gi}}, guaranteed: true},
	{text: "cpu=1500m memory=1Gi", asks: amounts{1500, map[string]int64{"memory": gi}}, guaranteed: true},
	{text: "cpu=1 memory=1Gi hugepages-2Mi=64Mi", asks: amounts{1000, map[string]int64{"memory": gi, "hugepages-2Mi": 64 * mi}}, guaranteed: true},
	{text: "cpu=1 memory=1Gi<2Gi hugepages-2Mi=64Mi", asks: amounts{1000, map[string]int64{"memory": gi, "hugepages-2Mi": 64 * mi}}},
	{text: "cpu=4 memory=4Gi hugepages-1Gi=1Gi", asks: amounts{4000, map[string]int64{"memory": 4 * gi, "hugepages-1Gi": gi}}, guaranteed: true},
	{text: "cpu=1", asks: amounts{1000, map[string]int64{}}},
}

// budgets are what a pod can state for itself.
var budgets = []shape{
	{budget: ""},
	{budget: "cpu=2 memory=2Gi", asks: amounts{2000, map[string]int64{"memory": 2 * gi}}, guaranteed: true},
	{budget: "cpu=4 memory=4Gi", asks: amounts{4000, map[string]int64{"memory": 4 * gi}}, guaranteed: true},
	{budget: "cpu=5500m memory=6Gi", asks: amounts{5500, map[string]int64{"memory": 6 * gi}}, guaranteed: true},
	{budget: "cpu=6 memory=8Gi hugepages-2Mi=128Mi hugepages-1Gi=1Gi", asks: amounts{6000, map[string]int64{"memory": 8 * gi, "hugepages-2Mi": 128 * mi, "hugepages-1Gi": gi}}, guaranteed: true},
	{budget: "cpu=20 memory=40Gi", asks: amounts{20000, map[string]int64{"memory": 40 * gi}}, guaranteed: true, wide: true},
	{budget: "cpu=6<8 memory=8Gi", asks: amounts{6000, map[string]int64{"memory": 8 * gi}}},
}

// sequences are all of at most that many containers of the kinds.
func sequences(from []container, most int, kinds ...string) (all [][]container) {
	all = [][]container{nil}
	last := all
	for range most {
		var longer [][]container
		for _, before := range last {
			for _, kind := range kinds {
				for _, c := range from {
					c.kind = kind
					longer = append(longer, append(slices.Clone(before), c))
				}
			}
		}
		all, last = append(all, longer...), longer
	}
	return all
}

// shapes are all pods of up to that many init containers and one or two others.
func shapes(from []container, inits int) (all []shape) {
	for _, budget := range budgets {
		for _, before := range sequences(from, inits, "init", "sidecar") {
			for _, apps := range sequences(from, 2, "app")[1:] {
				s := budget
				s.containers = append(slices.Clone(before), apps...)
				all = append(all, s)
			}
		}
	}
	return all
}

// TestShapes admits small pods of every kind under every scope and policy, with
// the gate on and off, and holds what they are given against the model. After
// each, the kubelet starts anew: nothing moves and nothing is written. All pods
// are tried whose containers want nothing or a slice, and as many of those that
// want something else, too, as PODSLICE_SCENARIOS says.
func TestShapes(t *testing.T) {
	few := shapes(wants[:2], 2)
	more := shapes(wants, 2)
	some := 2000
	if n, err := strconv.Atoi(os.Getenv("PODSLICE_SCENARIOS")); err == nil {
		some = n
	}
	combinations := len(more) * len(scopes) * len(policies) * 2
	every := max(1, combinations/max(1, some))
	tried, refused := 0, 0
	at := 0
	for _, scope := range scopes {
		for _, policy := range policies {
			for _, gate := range []bool{true, false} {
				t.Run(fmt.Sprintf("scope %s, policy %s, gate %t", scope, policy, gate), func(t *testing.T) {
					n := roomyNode(t, setting{scope, policy}, gate)
					try := func(s shape) {
						tried++
						if !s.hold(t, n) {
							refused++
						}
					}
					for i, s := range few {
						// Where nothing is looked at, a part will do.
						if gate || i%8 == 0 {
							try(s)
						}
					}
					for _, s := range more {
						if at++; at%every == 0 {
							try(s)
						}
					}
				})
			}
		}
	}
	t.Logf("%d pods of %d, of which %d were refused", tried, len(few)*len(scopes)*len(policies)*2+combinations, refused)
	require.Greater(t, refused, tried/50)
	require.Less(t, refused, tried/2)
}

func roomyNode(t *testing.T, s setting, gate bool) *simnode.Node {
	n := newNode(t)
	n.Info = simnode.Shape{Nodes: 2, Cores: 8, Threads: 2, Memory: resource.MustParse("40Gi"), Hugepages2Mi: 512, Hugepages1Gi: 6}.MachineInfo()
	n.ReservedCPUs = cpuset.New(0, 16)
	n.Scope, n.TopologyPolicy, n.Gate = s.scope, s.policy, gate
	require.NoError(t, n.Start())
	return n
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

// hold admits the pod on the idle node, starts the kubelet anew, and ends the
// pod. It reports whether the pod was admitted.
func (s shape) hold(t *testing.T, n *simnode.Node) bool {
	pod, err := parsePod("pod", s.text())
	require.NoError(t, err)
	want, reason, sentence := s.expect(setting{n.Scope, n.TopologyPolicy}, n.Gate)
	what := strings.Join(s.text(), "; ")
	files := n.Files()
	n.Add(pod)
	result := n.Admit(pod)
	if !result.Admit || reason != "" {
		n.Remove(pod.Name)
		require.Equal(t, reason, result.Reason, "%s: %s", what, result.Message)
		require.Truef(t, strings.HasPrefix(result.Message, sentence) && endsSentence(result.Message[len(sentence):]), "%s: refused with %q, not with %q", what, result.Message, sentence)
		require.Equal(t, files, n.Files(), what)
		return false
	}
	is, err := outcomeOf(n, pod)
	require.NoError(t, err, what)
	require.Equal(t, want, is.withoutNodes(), what)
	require.NoError(t, n.CheckAdmitted(pod), what)
	require.NoError(t, n.CheckInvariants(), what)
	s.checkInit(t, n, pod, what)

	written := n.Files()
	require.NoError(t, n.Start(), what)
	result = n.Admit(pod)
	require.Truef(t, result.Admit, "%s: refused when the kubelet started anew: %s", what, result.Message)
	again, err := outcomeOf(n, pod)
	require.NoError(t, err, what)
	require.Equal(t, is, again, "%s: moved when the kubelet started anew", what)
	require.Equal(t, written, n.Files(), "%s: written when the kubelet started anew", what)

	require.NoError(t, n.StartContainers(pod))
	require.NoError(t, n.End(pod.Name))
	require.Equal(t, files, n.Files(), "%s: something is left", what)
	return true
}

func (o outcome) withoutNodes() outcome {
	cut := func(lines []string) (short []string) {
		for _, line := range lines {
			line, _, _ = strings.Cut(line, " @")
			short = append(short, line)
		}
		return short
	}
	return outcome{cut(o.cpus), cut(o.memory)}
}

// checkInit holds a standard init container with a slice to the CPUs that no
// running sidecar uses, as far as there are enough.
func (s shape) checkInit(t *testing.T, n *simnode.Node, pod *v1.Pod, what string) {
	whole := n.CPU.GetPodCPUs(string(pod.UID))
	if whole.IsEmpty() {
		return
	}
	var running, sliced cpuset.CPUSet
	for c := range simnode.Containers(pod) {
		cpus := n.CPU.GetCPUAffinity(string(pod.UID), c.Name)
		own := n.CPU.GetResourceIsolationLevel(pod, c) == cmqos.ResourceIsolationContainer
		switch {
		case c.RestartPolicy != nil:
			running = running.Union(cpus)
			if own {
				sliced = sliced.Union(cpus)
			}
		case strings.HasPrefix(c.Name, "init") && own:
			require.True(t, cpus.Intersection(sliced).IsEmpty(), what)
			shared := cpus.Intersection(running).Size()
			require.Equalf(t, max(0, cpus.Size()-whole.Difference(running).Size()), shared, "%s: CPUs that %s has in common with sidecars", what, c.Name)
		}
	}
}

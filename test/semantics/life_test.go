// SPDX-License-Identifier: Apache-2.0

package semantics

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/test/simnode"
)

// admit admits a pod, leads it through its life, with kubelets that start anew
// in between, and returns the cells of its row. At its end all is as before it
// came; so it is at once if it is refused.
//
// With flips, kubelets with other scopes and policies and without the gate come
// in between, too. Whatever the pod holds stays as it is; what it does not hold
// may come to it if it would be given that now.
func admit(t *testing.T, n *simnode.Node, pod *v1.Pod, flips bool, what string) map[string]string {
	idle := n.CPU.State().GetDefaultCPUSet()
	files := n.Files()
	later := pod.Spec.EphemeralContainers
	pod = pod.DeepCopy()
	pod.Spec.EphemeralContainers = nil
	n.Add(pod)
	result := n.Admit(pod)
	if !result.Admit {
		n.Remove(pod.Name)
		require.Equalf(t, files, n.Files(), "%s: a refused pod leaves something behind", what)
		require.Equalf(t, idle, n.CPU.State().GetDefaultCPUSet(), what)
		return map[string]string{"refused with": result.Reason + "\n" + result.Message}
	}
	require.NoError(t, n.CheckAdmitted(pod), what)
	is, err := outcomeOf(n, pod)
	require.NoError(t, err, what)
	written := n.Files()
	same := func(doing string) {
		now, err := outcomeOf(n, pod)
		require.NoErrorf(t, err, "%s: %s", what, doing)
		require.Equalf(t, is, now, "%s: %s", what, doing)
		require.Equalf(t, written, n.Files(), "%s: %s: something was written", what, doing)
		require.NoErrorf(t, n.CheckInvariants(), "%s: %s", what, doing)
	}
	start := func(doing string) {
		require.NoErrorf(t, n.Start(), "%s: %s", what, doing)
		for _, p := range n.Active() {
			result := n.Admit(p)
			require.Truef(t, result.Admit, "%s: %s: %s refused: %s", what, doing, p.Name, result.Message)
		}
	}
	restart := func(doing string) {
		start(doing)
		same(doing)
	}
	restart("kubelet started anew before any container")
	for c := range simnode.Containers(pod) {
		require.NoError(t, n.StartContainer(pod, c))
		restart("kubelet started anew after the start of " + c.Name)
	}
	if len(later) > 0 {
		n.Remove(pod.Name)
		pod = pod.DeepCopy()
		pod.Spec.EphemeralContainers = later
		n.Add(pod)
		with, err := outcomeOf(n, pod)
		require.NoError(t, err, what)
		require.Equalf(t, is.cpus, with.cpus[:len(is.cpus)], "%s: moved by an ephemeral container", what)
		require.Equalf(t, is.memory, with.memory[:len(is.memory)], "%s: moved by an ephemeral container", what)
		is = with
		for c := range simnode.Ephemeral(pod) {
			require.NoError(t, n.StartContainer(pod, c))
			restart("kubelet started anew after the start of " + c.Name)
		}
	}
	if flips {
		flip(t, n, pod, is, start, what)
	}
	require.NoError(t, n.End(pod.Name))
	require.Equalf(t, files, n.Files(), "%s: something is left of a pod that ended", what)
	require.Equalf(t, idle, n.CPU.State().GetDefaultCPUSet(), what)
	return map[string]string{"CPUs": strings.Join(is.cpus, "\n"), "memory": strings.Join(is.memory, "\n")}
}

// flip starts kubelets with every other configuration, and the first one again.
func flip(t *testing.T, n *simnode.Node, pod *v1.Pod, was outcome, start func(doing string), what string) {
	own := n.Settings
	keeps := func(doing string) {
		start(doing)
		now, err := outcomeOf(n, pod)
		require.NoErrorf(t, err, "%s: %s", what, doing)
		for i := range was.cpus {
			require.Truef(t, holdsStill(was.cpus[i], now.cpus[i]) && holdsStill(was.memory[i], now.memory[i]),
				"%s: %s: the pod had %v and has %v", what, doing, was, now)
		}
		require.NoErrorf(t, n.CheckInvariants(), "%s: %s", what, doing)
	}
	for _, n.Gate = range []bool{own.Gate, false} {
		for _, n.Scope = range scopes {
			for _, n.TopologyPolicy = range policies {
				keeps(fmt.Sprintf("kubelet started anew with scope %s, policy %s, gate %t", n.Scope, n.TopologyPolicy, n.Gate))
			}
		}
	}
	n.Settings = own
	keeps("kubelet started anew with its own configuration")
}

// holdsStill reports whether what was held is held now.
func holdsStill(was, now string) bool { return was == now || was == "-" || was == "host" }

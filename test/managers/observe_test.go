// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/test/simnode"
)

// observe runs the commands of scripts that change nothing on the node. Grown are
// the counters since they were looked at last.
//
//	resize NAME
//	  the kubelet asks whether the pod may become the one that is written below,
//	  and if so it is that one from now on
//	podresources: what a client of the kubelet's podresources API is told
//	metrics: which counters have grown since the last time
func observe(t *testing.T, n *simnode.Node, grown *counters, d *datadriven.TestData) (string, bool) {
	switch d.Cmd {
	case "node":
		grown.since(t)
	case "metrics":
		return grown.since(t), true
	case "podresources":
		return listPodResources(t, n), true
	case "resize":
		return resize(t, n, d), true
	}
	return "", false
}

// resize asks for other resources of a pod. Whatever the answer, nothing may
// change: no state file, no hint, nothing that a container would be given.
func resize(t *testing.T, n *simnode.Node, d *datadriven.TestData) string {
	resized, err := simnode.ParsePod(d.Input)
	require.NoError(t, err, d.Pos)
	pod := n.Pod(d.CmdArgs[0].Key)
	require.NotNil(t, pod, d.Pos)
	require.Equal(t, pod.UID, resized.UID, d.Pos)
	look := func() string {
		return n.Files() + n.Affinities(n.Active()) + n.Describe(pod)
	}
	before := look()
	result := n.Ask(resized, lifecycle.ResizeOperation)
	require.Equal(t, before, look(), d.Pos)
	if !result.Admit {
		return fmt.Sprintf("%s: %s\n", result.Reason, result.Message)
	}
	n.Remove(pod.Name)
	n.Add(resized)
	return fmt.Sprintf("admit=true %s\n", result.Message)
}

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// A resize that is refused stays in the pod that the kubelet lists, and not in
// the one that it admits after a restart.
func TestRefusedResizeIsNotLearnt(t *testing.T) {
	setGates(t, true)
	n := newNode(t, "restricted", "pod")
	admitted := database()
	n.mustAdmit(admitted)
	wanted := pod("database", budget("8", "16Gi"), sidecar("metrics-exporter", "1", "2Gi"), sidecar("backup-agent", "", ""), app("database", "6", "12Gi"))
	n.active = []*v1.Pod{wanted}
	result := n.tm.Admit(t.Context(), &lifecycle.PodAdmitAttributes{Pod: wanted, Operation: resizing})
	require.Equal(t, lifecycle.PodAdmitResult{
		Reason:  v1.PodReasonInfeasible,
		Message: `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static": memory of its own for container "metrics-exporter": none admitted, 2Gi asked for`,
	}, result)

	n.running = containermap.NewContainerMap()
	n.running.Add("database", "database", "id")
	n.restart()
	n.mustAdmit(pod("other", app("a", "1", "1Gi"))) // which looks at all pods
	known := func(p *v1.Pod) bool {
		asked, err := specOf(p)
		require.NoError(t, err)
		_, news := n.published().Records().Learn(asked)
		return !news
	}
	require.True(t, known(wanted), "so far what the kubelet lists is all that is known")
	before := n.content()
	n.mustAdmit(admitted)
	require.True(t, known(admitted), "what is admitted counts")
	require.Equal(t, before, n.content())
}

// What is compared with is what is on record, if that is another than what the pod
// was admitted with: an earlier kubelet may have let it be resized.
func TestResizeBackToTheRecord(t *testing.T) {
	setGates(t, true)
	n := newNode(t, "restricted", "pod")
	n.mustAdmit(pod("p", budget("4", "8Gi"), app("a", "2", "4Gi"), app("b", "", "")))
	grown := pod("p", budget("4", "10Gi"), app("a", "2", "6Gi"), app("b", "", ""))
	n.active = []*v1.Pod{grown}
	n.mustAdmit(grown)
	for _, c := range []struct {
		to   *v1.Pod
		want string
	}{
		{pod("p", budget("4", "8Gi"), app("a", "2", "4Gi"), app("b", "", "")), ""},
		{pod("p", budget("4", "10Gi"), app("a", "2", "6Gi"), app("b", "1", "")), ""},
		{pod("p", budget("4", "9Gi"), app("a", "2", "5Gi"), app("b", "", "")),
			`Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static": memory of the pod budget: 8Gi on record, 9Gi asked for; memory of its own for container "a": 4Gi on record, 5Gi asked for`},
	} {
		err := n.CheckResize(klog.Logger{}, grown, c.to)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.want)
		require.ErrorAs(t, err, new(*topologymanager.ResizeError))
	}
}

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cadvisorapi "github.com/google/cadvisor/lib/model"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// TestInitContainersKeepTheirMemory shows the fault that the scenarios leave
// out: upstream gives the rest of an ended init container's memory to others,
// and has nothing for it when the pod's sandbox is made anew. Ours stays as it
// was at admission.
func TestInitContainersKeepTheirMemory(t *testing.T) {
	topology := []cadvisorapi.Node{{Id: 0, Memory: 8 * 1024 * mi}}
	w := newTwins(t, topology)
	container := func(name string, gi int64) v1.Container {
		list := v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(gi<<30, resource.BinarySI)}
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "p"},
		Status:     v1.PodStatus{QOSClass: v1.PodQOSGuaranteed},
		Spec:       v1.PodSpec{InitContainers: []v1.Container{container("init", 6)}, Containers: []v1.Container{container("app", 2)}},
	}
	w.active = []*v1.Pod{pod}
	w.answer = affinity{numa.SetOf(0), true}
	for _, c := range containers(pod) {
		require.NoError(t, w.theirs.Allocate(quietly, w.theirState, pod, c, add))
		require.NoError(t, w.ours.Allocate(quietly, pod, c, add))
	}
	compareStates(t, w)

	// Upstream's manager does this to its policy when "app" starts.
	w.theirs.RemoveContainer(quiet, w.theirState, "p", "init")
	w.ours.AddContainer(quiet, pod, &pod.Spec.Containers[0], "id")
	free := func() (theirs, ours uint64) {
		return w.theirState.GetMachineState()[0].MemoryMap["memory"].Free, w.ours.State().GetMachineState()[0].MemoryMap["memory"].Free
	}
	theirs, ours := free()
	require.EqualValues(t, 5632*mi, theirs)
	require.EqualValues(t, 1536*mi, ours)

	// "init" runs again: upstream does not bind it, and knows of no memory.
	require.Empty(t, w.theirState.GetMemoryBlocks("p", "init"))
	require.Len(t, w.ours.GetMemoryNUMANodes(quiet, pod, &pod.Spec.InitContainers[0]), 1)

	// And after a restart upstream allocates it anew, for which there is no room,
	// and kills the pod (123971).
	var err error
	w.theirs, err = w.newTheirs()
	require.NoError(t, err)
	require.Error(t, w.theirs.Allocate(quietly, w.theirState, pod, &pod.Spec.InitContainers[0], add))
	w.startOurs(t)
	for _, c := range containers(pod) {
		require.NoError(t, w.ours.Allocate(quietly, pod, c, add))
	}
	_, again := free()
	require.Equal(t, ours, again)
}

// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/record"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/status"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	kubeletutil "k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
)

// kubelet is the part of one that admits pods and resizes them: the kubelet's own
// handler of resizes, and then our managers.
type kubelet struct {
	*simnode.Node
	allocation allocation.Manager
	status     status.Manager
	ctx        context.Context
}

// runtime has no swap.
type runtime struct{ kubecontainer.Runtime }

func (runtime) GetContainerSwapBehavior(*v1.Pod, *v1.Container) kubetypes.SwapBehavior {
	return kubetypes.NoSwap
}

func start(t *testing.T, policy string) *kubelet {
	k := &kubelet{Node: simnode.New(t), ctx: klog.NewContext(context.Background(), klog.Logger{})}
	k.Info = simnode.Shape{Nodes: 2, Cores: 4, Threads: 2, Memory: resource.MustParse("16Gi")}.MachineInfo()
	k.TopologyPolicy, k.ReservedCPUs = policy, cpuset.New(0, 8)
	require.NoError(t, k.Start())
	k.status = status.NewManager(nil, kubepod.NewBasicPodManager(), nil, kubeletutil.NewPodStartupLatencyTracker())
	byUID := func(uid types.UID) (*v1.Pod, bool) {
		for _, pod := range k.Active() {
			if pod.UID == uid {
				return pod, true
			}
		}
		return nil, false
	}
	k.allocation = allocation.NewInMemoryManager(k.Logger, k.status, func(context.Context, *v1.Pod) {}, k.Active, byUID,
		config.NewSourcesReady(func(sets.Set[string]) bool { return true }), record.NewFakeRecorder(100))
	containers := cm.NewFakeContainerManagerWithNodeConfig(cm.NodeConfig{CPUManagerPolicy: "static", MemoryManagerPolicy: "Static"})
	k.allocation.AddPodAdmitHandlers(lifecycle.PodAdmitHandlers{
		allocation.NewPodResizesAdmitHandler(containers, runtime{}, k.allocation), k.Topology,
	})
	return k
}

func (k *kubelet) parse(text string) *v1.Pod {
	pod, err := simnode.ParsePod(text)
	require.NoError(k.TB, err)
	pod.Status.QOSClass = v1.PodQOSGuaranteed
	return pod
}

func (k *kubelet) add(text string) *v1.Pod {
	pod := k.parse(text)
	others := k.Active()
	// The kubelet lists a pod before it admits it.
	k.Add(pod)
	ok, reason, message := k.allocation.AddPod(k.ctx, others, pod)
	require.True(k.TB, ok, "%s: %s", reason, message)
	return pod
}

// resize lets the API server have another version of the pod, and returns what the
// pod's status says about that: the reason and the message, or nothing for a
// resize that goes on.
func (k *kubelet) resize(text string) (reason, message string) {
	pod := k.parse(text)
	k.Replace(pod)
	k.allocation.PushPendingResize(k.Logger, pod.UID)
	k.allocation.RetryPendingResizes(k.ctx, "test")
	require.False(k.TB, k.allocation.HasPendingResizes(), "it is tried again and again")
	for _, c := range k.status.GetPodResizeConditions(pod.UID) {
		if c.Type == v1.PodResizePending {
			return c.Reason, c.Message
		}
	}
	return "", ""
}

// A resize that our managers cannot follow is final for the kubelet, under every
// policy, and the pod's allocation stays what it was; one that is no business of
// theirs goes on.
func TestResizesOfABudget(t *testing.T) {
	for _, policy := range []string{"none", "best-effort", "restricted", "single-numa-node"} {
		k := start(t, policy)
		admitted := k.add("db cpu=6 memory=8Gi\nsidecar log\napp database cpu=4 memory=4Gi")
		files := k.Files()

		reason, message := k.resize("db cpu=8 memory=8Gi\nsidecar log\napp database cpu=4 memory=4Gi")
		require.Equal(t, v1.PodReasonInfeasible, reason, policy)
		require.Contains(t, message, `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static": cpu of the pod budget: 6 `)
		require.Contains(t, message, ", 8 asked for")
		budget, _ := k.allocation.GetPodLevelResourceAllocation(admitted.UID)
		require.Equal(t, admitted.Spec.Resources, budget)
		require.Equal(t, files, k.Files())

		// Its requests stay, so that the kubelet's own handler has nothing against it.
		reason, message = k.resize("db cpu=6 memory=8Gi\nsidecar log\napp database cpu=4<5 memory=4Gi")
		require.Equal(t, v1.PodReasonInfeasible, reason, policy)
		require.Contains(t, message, `cpu of its own for container "database": 4 on record, none asked for`)

		reason, message = k.resize("db cpu=6 memory=8Gi\nsidecar log cpu=<1\napp database cpu=4 memory=4Gi")
		require.Empty(t, reason, message)
		require.Equal(t, files, k.Files())
		resized, _ := k.allocation.GetContainerResourceAllocation(admitted.UID, "log")
		require.Equal(t, "1", resized.Limits.Cpu().String())

		// The kubelet starts again while a resize is refused: it admits the pod with
		// what was allocated.
		reason, _ = k.resize("db cpu=9 memory=8Gi\nsidecar log cpu=<1\napp database cpu=4 memory=4Gi")
		require.Equal(t, v1.PodReasonInfeasible, reason)
		require.NoError(t, k.StartContainers(admitted))
		ok, _, message := k.allocation.AddPod(k.ctx, k.Active(), k.Pod("db"))
		require.True(t, ok, message)
		require.Equal(t, files, k.Files())
	}
}

// The alpha gates for resizes of exclusive containers let the kubelet's own handler
// pass them on; the managers do not support them.
func TestResizesOfExclusiveContainers(t *testing.T) {
	for _, gates := range []bool{false, true} {
		featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{
			features.InPlacePodVerticalScalingExclusiveCPUs:   gates,
			features.InPlacePodVerticalScalingExclusiveMemory: gates,
		})
		k := start(t, "restricted")
		k.add("plain\napp a cpu=2 memory=1Gi")
		reason, message := k.resize("plain\napp a cpu=3 memory=1Gi")
		require.Equal(t, v1.PodReasonInfeasible, reason)
		want := `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`
		if gates {
			want += `: cpu of its own for container "a": 2 on record, 3 asked for`
		}
		require.Equal(t, want, message)
	}
}

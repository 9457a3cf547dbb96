// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/plan"
	"github.com/podslice/podslice/pkg/workload"
)

// amount is a random amount of a resource, or none.
func amount(r *rand.Rand, name v1.ResourceName) (resource.Quantity, bool) {
	if r.IntN(3) == 0 {
		return resource.Quantity{}, false
	}
	texts := []string{"0", "1", "2", "500m", "1500m", "4", "0.0001"}
	switch name {
	case v1.ResourceMemory:
		texts = []string{"0", "64Mi", "1Gi", "2Gi", "1.5Gi", "1000", "1500m"}
	case "hugepages-2Mi", "hugepages-1Gi":
		texts = []string{"2Mi", "4Mi", "1Gi"}
	case v1.ResourceEphemeralStorage:
		texts = []string{"1Gi", "10Gi"}
	}
	return resource.MustParse(texts[r.IntN(len(texts))]), true
}

func requirements(r *rand.Rand, names ...v1.ResourceName) v1.ResourceRequirements {
	var all v1.ResourceRequirements
	set := func(list *v1.ResourceList, name v1.ResourceName, q resource.Quantity) {
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[name] = q
	}
	for _, name := range names {
		request, requested := amount(r, name)
		limit, limited := amount(r, name)
		if limited && r.IntN(2) == 0 {
			request = limit
		}
		if requested {
			set(&all.Requests, name, request)
		}
		if limited {
			set(&all.Limits, name, limit)
		}
	}
	return all
}

// randomSpec is a pod of all kinds of resources, which the API may or may not take.
func randomSpec(r *rand.Rand, name string) *v1.Pod {
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}
	if r.IntN(3) == 0 {
		names = append(names, "hugepages-2Mi")
	}
	all := names
	if r.IntN(4) == 0 {
		all = append(slices.Clone(names), v1.ResourceEphemeralStorage)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	pod.Spec.RestartPolicy, pod.Spec.DNSPolicy = v1.RestartPolicyAlways, v1.DNSDefault
	container := func(name string) v1.Container {
		c := v1.Container{Name: name, Image: "i", ImagePullPolicy: v1.PullNever, TerminationMessagePolicy: v1.TerminationMessageReadFile}
		if r.IntN(4) > 0 {
			c.Resources = requirements(r, all...)
		}
		if r.IntN(12) == 0 {
			c.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(80 + r.IntN(2)), HostIP: []string{"", "10.0.0.1", "10.0.0.2"}[r.IntN(3)], Protocol: v1.ProtocolTCP}}
		}
		return c
	}
	for i := range r.IntN(3) {
		c := container(fmt.Sprintf("i%d", i))
		if r.IntN(2) == 0 {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range 1 + r.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, container(fmt.Sprintf("a%d", i)))
	}
	if r.IntN(2) == 0 {
		b := requirements(r, names...)
		pod.Spec.Resources = &b
	}
	if r.IntN(8) == 0 {
		pod.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("100Mi")}
	}
	return pod
}

func lists(pod *v1.Pod) map[string]string {
	texts := map[string]string{}
	put := func(where string, list v1.ResourceList) {
		for name, q := range list {
			texts[where+" "+string(name)] = q.String()
		}
	}
	for c := range plan.Containers(pod) {
		put(c.Name+" requests", c.Resources.Requests)
		put(c.Name+" limits", c.Resources.Limits)
	}
	if b := pod.Spec.Resources; b != nil {
		put("budget requests", b.Requests)
		put("budget limits", b.Limits)
	}
	return texts
}

// TestDefaults: what package workload adds is what the API server adds, and what it
// takes for wrong is what that refuses.
func TestDefaults(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	refused, changed := 0, 0
	for i := range 20000 {
		pod := randomSpec(r, fmt.Sprintf("p%d", i))
		ours := pod.DeepCopy()
		added := workload.Default(ours)

		theirs := pod.DeepCopy()
		corev1.SetObjectDefaults_Pod(theirs)
		var internal core.Pod
		require.NoError(t, corev1.Convert_v1_Pod_To_core_Pod(theirs, &internal, nil))
		podutil.DefaultPodLevelResources(&internal)
		var back v1.Pod
		require.NoError(t, corev1.Convert_core_Pod_To_v1_Pod(&internal, &back, nil))
		require.Equal(t, lists(&back), lists(ours), "%v", lists(pod))
		require.Equal(t, len(lists(ours)) > len(lists(pod)), len(added) > 0)
		if len(added) > 0 {
			changed++
		}

		internal.Spec.Overhead, internal.Spec.RuntimeClassName = nil, nil // of a RuntimeClass
		internal.Name = "p"
		var wrong []string
		for _, e := range validation.ValidatePodCreate(&internal, podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)) {
			if strings.Contains(e.Field, "resources") {
				wrong = append(wrong, e.Error())
			}
		}
		err := workload.Check(ours)
		require.Equal(t, len(wrong) > 0, err != nil, "%v\ntheirs %q\nours %v", lists(ours), wrong, err)
		if err != nil {
			refused++
		}
	}
	require.Greater(t, refused, 1000)
	require.Less(t, refused, 19000)
	require.Greater(t, changed, 1000)
}

// TestQOS: the class is the kubelet's.
func TestQOS(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	classes := map[v1.PodQOSClass]int{}
	for range 20000 {
		pod := randomSpec(r, "p")
		if r.IntN(2) == 0 {
			workload.Default(pod)
		}
		class := plan.QOSClass(pod, true)
		require.Equal(t, qos.ComputePodQOS(pod), class, "%v", lists(pod))
		classes[class]++
	}
	require.Len(t, classes, 3)
	require.Equal(t, v1.PodQOSBestEffort, plan.QOSClass(&v1.Pod{}, true))
}

// TestPodQuota: the quota of a pod's cgroup is what the kubelet's function makes.
func TestPodQuota(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 20000 {
		pod := randomSpec(r, "p")
		workload.Default(pod)
		const period = 100000
		config := cm.ResourceConfigForPod(pod, true, period, false, kubeletconfig.NoneMemoryReservationPolicy)
		want := int64(0)
		if config.CPUQuota != nil {
			want = max(0, *config.CPUQuota)
		}
		n := plan.NewNode(plan.Settings{PodLevelResources: true, CFSQuota: true, Topology: must(cpuplan.NewTopology([]cpuplan.CPU{{}}))}, cpuplan.State{}, memplan.Records{})
		given := n.Given(pod)
		require.Equal(t, plan.Quota{Micros: want, Period: period}, given.Quota, "%v", lists(pod))
		for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			limit := c.Resources.Limits.Cpu()
			if limit.IsZero() && pod.Spec.Resources != nil {
				limit = pod.Spec.Resources.Limits.Cpu()
			}
			require.Equal(t, cm.MilliCPUToQuota(limit.MilliValue(), period), given.Containers[i].Quota.Micros)
		}
	}
}

// noPreemption is a handler that evicts nobody.
type noPreemption struct{}

func (noPreemption) HandleAdmissionFailure(_ context.Context, _ *v1.Pod, reasons []lifecycle.PredicateFailureReason, _ lifecycle.Operation) ([]lifecycle.PredicateFailureReason, error) {
	return reasons, nil
}

// TestPredicates: what does not fit beside other pods is refused with the kubelet's
// reason and words.
func TestPredicates(t *testing.T) {
	reasons := map[string]int{}
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 4))
		allocatable := v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(int64(1000+500*r.IntN(40)), resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(int64(1+r.IntN(32))<<30, resource.BinarySI),
			v1.ResourcePods:   *resource.NewQuantity(int64(1+r.IntN(12)), resource.DecimalSI),
			"hugepages-2Mi":   *resource.NewQuantity(int64(r.IntN(4))<<21, resource.BinarySI),
		}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
		node.Status.Allocatable, node.Status.Capacity = allocatable.DeepCopy(), allocatable
		// The plan does not know disks, and has enough of them.
		node.Status.Allocatable[v1.ResourceEphemeralStorage] = resource.MustParse("1000Gi")
		handler := lifecycle.NewPredicateAdmitHandler(
			func(context.Context, bool) (*v1.Node, error) { return node, nil }, noPreemption{},
			func(*schedulerframework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil })
		policy, err := placement.NewPolicy(placement.None, memplan.Machine{}.Nodes(), placement.Options{})
		require.NoError(t, err)
		n := plan.NewNode(plan.Settings{
			PodLevelResources: true, Policy: policy, Scope: placement.ScopeNone, Allocatable: plan.AmountsOf(allocatable), Topology: must(cpuplan.NewTopology([]cpuplan.CPU{{}})),
		}, cpuplan.State{}, memplan.Records{})
		var others []*v1.Pod
		for i := range 12 {
			pod := randomSpec(r, fmt.Sprintf("p%d", i))
			workload.Default(pod)
			result := handler.Admit(klog.NewContext(t.Context(), klog.Logger{}), &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation})
			next, verdict := n.Admit(pod)
			n = next
			require.Equal(t, result.Admit, verdict.Admitted, "%v: kubelet %s, plan %s", lists(pod), result.Message, verdict.Message)
			require.Equal(t, result.Reason, verdict.Reason)
			require.Equal(t, result.Message, verdict.Message)
			if result.Admit {
				others = append(others, pod)
			} else {
				reasons[result.Reason]++
			}
		}
	}
	require.Subset(t, slices.Collect(maps.Keys(reasons)), []string{"OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfhugepages-2Mi", "NodePorts"})
}

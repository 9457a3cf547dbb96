// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"fmt"
	"os"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
	"github.com/podslice/podslice/test/podtext"
)

// TestEphemeralContainers adds debuggers to running pods, which only an API server
// can. A debugger must run in the node shared pool, on any NUMA node, under its own
// quota, and follow the pool when it changes; nothing of the pod may. A kubelet that
// is killed and started finds all as it was.
func TestEphemeralContainers(t *testing.T) {
	onlyWhole(t)
	if os.Getenv("PODSLICE_SUITE") == "" {
		t.Fatal("PODSLICE_SUITE is not set: run this as `make test-e2e-node RUN=TestEphemeralContainers`")
	}
	for _, test := range []struct {
		scope, pod string
		podQuota   string
		quota      string // of the debugger
	}{
		// The budget less the slices.
		{"pod", `mixed cpu=5 memory=256Mi
			sidecar proxy cpu=1 memory=64Mi
			app main cpu=2 memory=64Mi
			app helper`, "max 100000", "200000 100000"},
		{"container", `mixed cpu=5 memory=256Mi
			sidecar proxy cpu=1 memory=64Mi
			app main cpu=2 memory=64Mi
			app helper`, "max 100000", "200000 100000"},
		// Slices that use up the budget leave it one CPU.
		{"pod", `slices cpu=3 memory=256Mi
			app a cpu=2 memory=64Mi
			app b cpu=1 memory=64Mi`, "max 100000", "100000 100000"},
		// The pod's own quota bounds it where that is not lifted.
		{"pod", `shared cpu=2 memory=256Mi
			app a
			app b cpu=500m memory=32Mi`, "200000 100000", "200000 100000"},
	} {
		t.Run(fmt.Sprintf("scope %s, %s", test.scope, podName(test.pod)), func(t *testing.T) {
			n := freshNode(t)
			api, err := n.StartAPIServer(ctx)
			must(t, err)
			config := node.Pinned(shape, "restricted", test.scope)
			config.API = true
			must(t, n.StartKubelet(ctx, config))
			pod := createPod(t, api, test.pod)
			before := waitPod(t, n, pod.Name)
			poolBefore := nodePool(t, before)

			addDebugger(t, api, pod.Name)
			with := waitPod(t, n, pod.Name)
			checkDebugger(t, with, pod.Name, test.quota)
			equal(t, "the node shared pool", nodePool(t, with).String(), poolBefore.String())
			equal(t, "pod cpu.max", with.Pod(pod.Name).CPUMax, test.podQuota)
			sameContainers(t, before, with, pod.Name)

			other := createPod(t, api, "other cpu=4 memory=128Mi\napp a cpu=4 memory=64Mi")
			waitPod(t, n, other.Name)
			must(t, n.WaitReconciled(ctx, 2))
			smaller := waitPod(t, n, pod.Name)
			equal(t, "CPUs of the node shared pool", nodePool(t, smaller).Size(), poolBefore.Size()-4)
			checkDebugger(t, smaller, pod.Name, test.quota)
			if test.scope == "pod" {
				sameContainers(t, before, smaller, pod.Name)
			}

			was, err := n.KubeletPID(ctx)
			must(t, err)
			must(t, n.KillKubelet(ctx))
			must(t, n.RestartKubelet(ctx, was))
			waitPod(t, n, pod.Name)
			must(t, n.WaitReconciled(ctx, 2))
			after := waitPod(t, n, pod.Name)
			checkDebugger(t, after, pod.Name, test.quota)
			sameContainers(t, smaller, after, pod.Name)
			equal(t, "the debugger", *named(t, after.Pod(pod.Name), debugger), *named(t, smaller.Pod(pod.Name), debugger))

			for _, name := range []string{pod.Name, other.Name} {
				must(t, api.CoreV1().Pods(v1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}))
			}
			waitGone(t, n, api, pod.Name, other.Name)
			must(t, n.WaitReconciled(ctx, 2))
			empty, err := n.Report(ctx)
			must(t, err)
			equal(t, "CPUs of the node shared pool of an empty node", nodePool(t, empty).Size(), shape.CPUs())
		})
	}
}

// debugger is the name of the ephemeral container.
const debugger = "debugger"

// endless is what containers run, until they are told to end.
var endless = []string{"sh", "-c", "trap 'exit 0' TERM; while true; do sleep 3600 & wait; done"}

func podName(text string) string {
	pod, err := podtext.Parse(text)
	if err != nil {
		return err.Error()
	}
	return pod.Name
}

// createPod gives the API server a pod that is bound to the node already: there is
// no scheduler.
func createPod(t *testing.T, api kubernetes.Interface, text string) *v1.Pod {
	t.Helper()
	pod, err := podtext.Parse(text)
	must(t, err)
	pod.UID = ""
	pod.Spec.NodeName = node.Name
	pod.Spec.HostNetwork = true
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	for c := range podtext.Containers(pod) {
		c.Image, c.ImagePullPolicy, c.Command = node.ImageBusybox, v1.PullNever, endless
	}
	pod, err = api.CoreV1().Pods(v1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
	must(t, err)
	return pod
}

func addDebugger(t *testing.T, api kubernetes.Interface, name string) {
	t.Helper()
	pods := api.CoreV1().Pods(v1.NamespaceDefault)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	must(t, err)
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Name: debugger, Image: node.ImageBusybox, ImagePullPolicy: v1.PullNever, Command: endless,
			TerminationMessagePolicy: v1.TerminationMessageReadFile,
		},
	})
	_, err = pods.UpdateEphemeralContainers(ctx, name, pod, metav1.UpdateOptions{})
	must(t, err)
}

// waitPod waits until every container of a pod of the API server's runs.
func waitPod(t *testing.T, n *node.Node, name string) *report.Report {
	t.Helper()
	r, err := n.WaitRunning(ctx, node.Manifest{Name: name, NodeName: name})
	must(t, err)
	return r
}

// waitGone waits until neither the API server nor the kubelet has the pods.
func waitGone(t *testing.T, n *node.Node, api kubernetes.Interface, names ...string) {
	t.Helper()
	for limit := time.Now().Add(5 * time.Minute); ; time.Sleep(2 * time.Second) {
		left := ""
		r, err := n.Report(ctx)
		must(t, err)
		for _, name := range names {
			_, err := api.CoreV1().Pods(v1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
			if err == nil || r.Pod(name) != nil {
				left += " " + name
			} else if !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("pods are still there:%s", left)
		}
	}
}

func checkDebugger(t *testing.T, r *report.Report, name, quota string) {
	t.Helper()
	c := named(t, r.Pod(name), debugger)
	equal(t, "the debugger's kind", c.Kind, report.Ephemeral)
	equal(t, "the debugger's cpuset.cpus, the node shared pool", c.CPUs, nodePool(t, r).String())
	equal(t, "the debugger's Cpus_allowed_list", c.CPUsAllowed, c.CPUs)
	equal(t, "the debugger's cpuset.mems", c.Mems, "")
	equal(t, "the debugger's cpu.max", c.CPUMax, quota)
	equal(t, "podresources' CPUs of the debugger", c.CPUIDs, "")
}

// sameContainers asserts that all but the debugger is as it was.
func sameContainers(t *testing.T, before, after *report.Report, name string) {
	t.Helper()
	for _, c := range before.Pod(name).Containers {
		if c.Name != debugger {
			equal(t, "container "+c.Name, *named(t, after.Pod(name), c.Name), c)
		}
	}
}

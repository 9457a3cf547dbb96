// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"github.com/podslice/podslice/test/e2e_node/guest"
	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
	"github.com/podslice/podslice/test/podtext"
)

// matrixFolder has, for each container of the matrix, what the kernel allowed it
// when it began: the only trace of an init container that has ended.
const matrixFolder = "/run/matrix"

// TestMatrix runs pods of many shapes on several machines under several
// configurations and compares what the kernel has of each with what is promised for
// it, see docs/semantics.md. No CPU may be in two exclusive allocations or in one and
// a pool, over all pods of a case. Then the kubelet is killed and started over the
// running pods, twice as it was and with the gate off and on: all must stay.
func TestMatrix(t *testing.T) {
	for _, test := range matrixCases {
		if leftOut(test.smoke) {
			continue
		}
		t.Run(test.name, func(t *testing.T) { playMatrix(t, test) })
	}
}

func playMatrix(t *testing.T, test matrixCase) {
	machine := shape
	if test.machine != "" {
		var err error
		machine, err = guest.ParseShape(test.machine)
		must(t, err)
	}
	n := freshNodeOf(t, machine)
	_, err := n.Guest.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s", matrixFolder))
	must(t, err)
	config := node.Pinned(machine, test.policy, test.scope)
	config.CPUOptions, config.TopologyOptions = test.cpuOptions, test.topologyOptions
	must(t, n.StartKubelet(ctx, config))
	if len(test.devices) > 0 {
		must(t, n.OfferDevices(ctx, test.devices))
		must(t, n.WaitDevices(ctx, len(test.devices)))
	}
	var pods []node.Manifest
	for _, row := range test.rows {
		pods = append(pods, matrixPod(t, row.pod))
	}
	if test.inOrder {
		for _, m := range pods {
			must(t, n.AddPod(ctx, m))
			must(t, n.WaitKnown(ctx, m))
		}
	} else {
		must(t, n.AddPods(ctx, pods...))
	}
	refused := map[string]string{}
	var running []node.Manifest
	for _, m := range pods {
		_, err := n.WaitRunning(ctx, m)
		if failed := new(node.FailedError); errors.As(err, &failed) {
			refused[m.Name] = "refused: " + failed.Reason
			say("%s: %s: %s", m.Name, failed.Reason, failed.Message)
			continue
		}
		must(t, err)
		running = append(running, m)
	}
	// The node shared pool is what the last pod has left.
	must(t, n.WaitReconciled(ctx, 2))
	r, err := n.Report(ctx)
	must(t, err)
	checkMatrix(t, n, test, pods, r, refused)
	if testing.Short() || t.Failed() {
		return
	}

	// A pod that was refused would be tried again by each kubelet.
	for _, m := range pods {
		if refused[m.Name] != "" {
			must(t, n.RemovePod(ctx, m))
		}
	}
	gateOff := config
	gateOff.Gates = map[string]bool{node.GatePodLevelResources: true, node.GatePodLevelResourceManagers: false}
	for _, change := range []struct {
		name   string
		config node.Config
	}{{"killed", config}, {"killed again", config}, {"gate off", gateOff}, {"gate on", config}} {
		if !t.Run(change.name, func(t *testing.T) {
			after := restartOver(t, n, change.config, running, r)
			if change.config.Gates[node.GatePodLevelResourceManagers] {
				checkMatrix(t, n, test, pods, after, refused)
			}
		}) {
			return
		}
	}
}

// checkMatrix compares a node with what the rows of a case say.
func checkMatrix(t *testing.T, n *node.Node, test matrixCase, pods []node.Manifest, r *report.Report, refused map[string]string) {
	t.Helper()
	began := readBegan(t, n)
	for i, row := range test.rows {
		t.Run(pods[i].Name, func(t *testing.T) {
			got := refused[pods[i].Name]
			if got == "" {
				got = test.text(t, r, r.Pod(pods[i].NodeName), began)
			}
			equal(t, "the node has\n"+got+"\nand should have\n"+lined(row.want)+"\nwhich is", got == lined(row.want), true)
		})
	}
	checkApart(t, r)
}

// lined is text without the indentation of this source.
func lined(text string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// matrixPod is a pod whose containers write down what they are allowed, and then
// wait or, if they are init containers, end.
func matrixPod(t *testing.T, text string) node.Manifest {
	t.Helper()
	pod, err := podtext.Parse(text)
	must(t, err)
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.UID = ""
	pod.Spec.HostNetwork = true
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	pod.Spec.Volumes = []v1.Volume{{Name: "out", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: matrixFolder}}}}
	for c := range podtext.Containers(pod) {
		script := fmt.Sprintf("sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status > /out/%s.%s", pod.Name, c.Name)
		c.Image, c.ImagePullPolicy = node.ImageBusybox, v1.PullNever
		c.VolumeMounts = []v1.VolumeMount{{Name: "out", MountPath: "/out"}}
		if !slices.ContainsFunc(pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name && i.RestartPolicy == nil }) {
			script += "; trap 'exit 0' TERM; while true; do sleep 3600 & wait; done"
		}
		c.Command = []string{"sh", "-c", script}
	}
	return manifest(t, pod)
}

// readBegan reads what the containers wrote, by pod and container.
func readBegan(t *testing.T, n *node.Node) map[string]string {
	t.Helper()
	out, err := n.Guest.Output(ctx, "cd "+matrixFolder+" && grep . * /dev/null")
	must(t, err)
	began := map[string]string{}
	for line := range strings.Lines(out) {
		name, cpus, _ := strings.Cut(strings.TrimSpace(line), ":")
		began[path.Base(name)] = cpus
	}
	return began
}

// nodePool is the node shared pool on record. No CPU of it may be anybody's own.
// What remains of an init container that had more CPUs than those after it use is
// in no container and not in the pool either, until its pod ends.
func nodePool(t *testing.T, r *report.Report) cpuset.CPUSet {
	t.Helper()
	// The state is a JSON text inside the file's.
	var file struct{ Data string }
	must(t, json.Unmarshal(r.States["cpu_manager_state"], &file))
	var state struct {
		DefaultCPUSet string `json:"defaultCpuSet"`
	}
	must(t, json.Unmarshal([]byte(file.Data), &state))
	pool := parse(t, state.DefaultCPUSet)
	for _, pod := range r.Pods {
		owned := parse(t, pod.CPUIDs)
		for _, c := range pod.Containers {
			owned = owned.Union(parse(t, c.CPUIDs))
		}
		equal(t, "CPUs of pod "+pod.Name+" in the node shared pool", owned.Intersection(pool).String(), "")
	}
	return pool
}

// checkApart asserts that no two pods hold the same CPUs and that slices of a pod
// are disjoint.
func checkApart(t *testing.T, r *report.Report) {
	owners := map[int]string{}
	take := func(owner string, cpus cpuset.CPUSet) {
		for _, cpu := range cpus.List() {
			if other := owners[cpu]; other != "" {
				t.Errorf("CPU %d is of %s and of %s", cpu, other, owner)
			}
			owners[cpu] = owner
		}
	}
	for _, pod := range r.Pods {
		rest := parse(t, pod.CPUIDs)
		for _, c := range pod.Containers {
			if c.Isolation == report.IsolationContainer && c.Kind != report.Init {
				own := parse(t, c.CPUs)
				take(pod.Name+"/"+c.Name, own)
				rest = rest.Difference(own)
			}
		}
		take(pod.Name, rest)
	}
}

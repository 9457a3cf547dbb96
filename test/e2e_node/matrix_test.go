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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/cpuset"
	"k8s.io/utils/ptr"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
	"github.com/podslice/podslice/test/podtext"
)

// matrixFolder has, for each container of the matrix, what the kernel allowed it
// when it began: the only trace of an init container that has ended.
const matrixFolder = "/run/matrix"

// TestMatrix runs pods of many shapes under several configurations and compares
// what the kernel has of each with what is promised for it, see
// docs/semantics.md. No CPU may be in two exclusive allocations or in one and a
// pool, over all pods of a case.
func TestMatrix(t *testing.T) {
	for _, test := range matrixCases {
		if leftOut(test.smoke) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			n := freshNode(t)
			_, err := n.Guest.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s", matrixFolder))
			must(t, err)
			config := node.Pinned(shape, test.policy, test.scope)
			must(t, n.StartKubelet(ctx, config))
			var pods []node.Manifest
			for _, row := range test.rows {
				pods = append(pods, matrixPod(t, row.pod))
			}
			must(t, n.AddPods(ctx, pods...))
			refused := map[string]string{}
			for _, m := range pods {
				_, err := n.WaitRunning(ctx, m)
				if failed := new(node.FailedError); errors.As(err, &failed) {
					refused[m.Name] = "refused: " + failed.Reason
					say("%s: %s: %s", m.Name, failed.Reason, failed.Message)
					continue
				}
				must(t, err)
			}
			// The node shared pool is what the last pod has left.
			must(t, n.WaitReconciled(ctx, 2))
			r, err := n.Report(ctx)
			must(t, err)
			began := readBegan(t, n)
			for i, row := range test.rows {
				t.Run(pods[i].Name, func(t *testing.T) {
					got := refused[pods[i].Name]
					if got == "" {
						got = matrixText(t, r, r.Pod(pods[i].NodeName), began)
					}
					equal(t, "the node has\n"+got+"\nand should have\n"+lined(row.want)+"\nwhich is", got == lined(row.want), true)
				})
			}
			checkApart(t, r)
		})
	}
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

// matrixText is what the kernel has of a pod, without the numbers of CPUs, which
// depend on the order in which pods came.
func matrixText(t *testing.T, r *report.Report, pod *report.Pod, began map[string]string) string {
	if pod == nil {
		return "no such pod"
	}
	var b strings.Builder
	whole := parse(t, pod.CPUIDs)
	b.WriteString("pod: ")
	if !whole.IsEmpty() {
		fmt.Fprintf(&b, "%s, ", countCPUs(whole))
	}
	fmt.Fprintf(&b, "%s\n", limitsText(t, pod.CPUMax, pod.MemoryMax))
	for _, c := range pod.Containers {
		if c.Kind == report.Init {
			fmt.Fprintf(&b, "%s: ran on %s\n", c.Name, initText(t, pod, whole, c.Name, parse(t, began[pod.Name[:strings.LastIndex(pod.Name, "-")]+"."+c.Name])))
			continue
		}
		cpus := parse(t, c.CPUs)
		equal(t, c.Name+": Cpus_allowed_list", c.CPUsAllowed, cpus.String())
		nodes := nodesOf(t, r.Machine, c.CPUs)
		switch c.Isolation {
		case report.IsolationContainer:
			equal(t, c.Name+": podresources' CPUs", c.CPUIDs, cpus.String())
			fmt.Fprintf(&b, "%s: %s", c.Name, strings.Replace(countCPUs(cpus), " ", " exclusive ", 1))
		case report.IsolationPod:
			left := whole
			for _, other := range pod.Containers {
				if other.Isolation == report.IsolationContainer && other.Kind != report.Init {
					left = left.Difference(parse(t, other.CPUs))
				}
			}
			equal(t, c.Name+": CPUs of the pod that no slice has", cpus.String(), left.String())
			fmt.Fprintf(&b, "%s: pod shared pool of %s", c.Name, countCPUs(cpus))
		default:
			equal(t, c.Name+": the node shared pool", cpus.String(), nodePool(t, r).String())
			fmt.Fprintf(&b, "%s: node shared pool", c.Name)
		}
		mems := parse(t, c.Mems)
		shared := c.Isolation == report.IsolationHost
		switch {
		case mems.IsEmpty():
			b.WriteString(", memory anywhere")
		case !shared && mems.Equals(nodes):
			fmt.Fprintf(&b, " on %s, its memory there", count(nodes, "node"))
		case shared:
			fmt.Fprintf(&b, ", its memory on %s", count(mems, "node"))
		default:
			fmt.Fprintf(&b, " on nodes %s, its memory on %s", nodes, mems)
		}
		fmt.Fprintf(&b, ", %s\n", limitsText(t, c.CPUMax, c.MemoryMax))
	}
	return strings.TrimSpace(b.String())
}

// initText tells where an init container ran: whether on CPUs of the pod, and of
// which other containers' it stayed off, if of any that was running.
func initText(t *testing.T, pod *report.Pod, whole cpuset.CPUSet, name string, cpus cpuset.CPUSet) string {
	text := countCPUs(cpus)
	if whole.IsEmpty() {
		return text
	}
	if !cpus.IsSubsetOf(whole) {
		return fmt.Sprintf("%s, the pod has %s", cpus, whole)
	}
	text += " of the pod"
	var apart []string
	for _, other := range pod.Containers {
		if other.Name == name {
			break
		}
		if other.Kind == report.Sidecar && cpus.Intersection(parse(t, other.CPUs)).IsEmpty() {
			apart = append(apart, other.Name)
		}
	}
	if len(apart) > 0 {
		text += ", apart from " + strings.Join(apart, ", ")
	}
	return text
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

func countCPUs(cpus cpuset.CPUSet) string { return count(cpus, "CPU") }

func count(set cpuset.CPUSet, what string) string {
	if set.Size() == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", set.Size(), what)
}

// limitsText writes a quota as a number of CPUs and a limit in the units of pods.
func limitsText(t *testing.T, cpuMax, memoryMax string) string {
	quota, period, _ := strings.Cut(cpuMax, " ")
	if quota != "max" {
		var q, p float64
		if _, err := fmt.Sscan(quota+" "+period, &q, &p); err != nil || p == 0 {
			t.Errorf("cpu.max %q", cpuMax)
		}
		quota = fmt.Sprint(q / p)
	}
	if memoryMax != "max" {
		var bytes int64
		if _, err := fmt.Sscan(memoryMax, &bytes); err != nil {
			t.Errorf("memory.max %q", memoryMax)
		}
		memoryMax = resource.NewQuantity(bytes, resource.BinarySI).String()
	}
	return fmt.Sprintf("cpu.max %s, memory.max %s", quota, memoryMax)
}

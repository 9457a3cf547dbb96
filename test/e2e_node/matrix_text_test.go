// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/e2e_node/report"
)

// text is what the kernel has of a pod, without the numbers of CPUs, which
// depend on the order in which pods came.
func (test matrixCase) text(t *testing.T, r *report.Report, pod *report.Pod, began map[string]string) string {
	if pod == nil {
		return "no such pod"
	}
	var b strings.Builder
	whole := parse(t, pod.CPUIDs)
	b.WriteString("pod: ")
	if !whole.IsEmpty() {
		fmt.Fprintf(&b, "%s, ", test.count(r.Machine, whole, ""))
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
			fmt.Fprintf(&b, "%s: %s", c.Name, test.count(r.Machine, cpus, "exclusive "))
		case report.IsolationPod:
			left := whole
			for _, other := range pod.Containers {
				if other.Isolation == report.IsolationContainer && other.Kind != report.Init {
					left = left.Difference(parse(t, other.CPUs))
				}
			}
			equal(t, c.Name+": CPUs of the pod that no slice has", cpus.String(), left.String())
			fmt.Fprintf(&b, "%s: pod shared pool of %s", c.Name, test.count(r.Machine, cpus, ""))
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
		if c.DeviceIDs != "" {
			equal(t, c.Name+": devices that its process was given", c.Devices, c.DeviceIDs)
			fmt.Fprintf(&b, ", %s", devicesText(t, c.DeviceIDs, nodes))
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

// count is the number of CPUs, and of what else the case counts them in.
func (test matrixCase) count(m report.Machine, cpus cpuset.CPUSet, adjective string) string {
	text := strings.Replace(countCPUs(cpus), " ", " "+adjective, 1)
	var others []string
	for _, what := range test.counts {
		var sets []string
		for _, cpu := range m.CPUs {
			if !cpus.Contains(cpu.ID) {
				continue
			}
			set := map[string]string{"core": cpu.Siblings, "cache": cpu.L3, "socket": fmt.Sprint(cpu.Socket)}[what]
			if !slices.Contains(sets, set) {
				sets = append(sets, set)
			}
		}
		others = append(others, plural(len(sets), what))
	}
	if len(others) > 0 {
		text += " of " + strings.Join(others, " and ")
	}
	return text
}

// devicesText is how many devices a container has, and whether they lie on the
// NUMA nodes of its CPUs. Their names tell where they lie.
func devicesText(t *testing.T, names string, nodes cpuset.CPUSet) string {
	list := strings.Split(names, ",")
	there := cpuset.New()
	for _, name := range list {
		node, _, _ := strings.Cut(strings.TrimPrefix(name, "node"), "-")
		there = there.Union(parse(t, node))
	}
	text := plural(len(list), "device")
	if there.IsSubsetOf(nodes) {
		return text + " there"
	}
	return fmt.Sprintf("%s on nodes %s, CPUs on %s", text, there, nodes)
}

func countCPUs(cpus cpuset.CPUSet) string { return count(cpus, "CPU") }

func count(set cpuset.CPUSet, what string) string {
	return plural(set.Size(), what)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
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

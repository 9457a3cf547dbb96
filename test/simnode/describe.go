// SPDX-License-Identifier: Apache-2.0

package simnode

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Describe is what each container of the pod would be given, a line each.
func (n *Node) Describe(pod *v1.Pod) string {
	var b strings.Builder
	uid := string(pod.UID)
	fmt.Fprintf(&b, "%s:", pod.Name)
	if cpus := n.CPU.GetPodCPUs(uid); !cpus.IsEmpty() {
		fmt.Fprintf(&b, " cpus %s", cpus)
	}
	for _, block := range n.Memory.GetPodMemory(uid) {
		fmt.Fprintf(&b, " %s %s on %v", block.Type, quantity(block.Size), block.NUMAAffinity)
	}
	b.WriteString("\n")
	for c := range Containers(pod) {
		fmt.Fprintf(&b, "  %s: cpus %s (%s)", c.Name, n.CPU.GetCPUAffinity(uid, c.Name), n.CPU.GetResourceIsolationLevel(pod, c))
		nodes := n.Memory.GetMemoryNUMANodes(n.Logger, pod, c).UnsortedList()
		slices.Sort(nodes)
		fmt.Fprintf(&b, " mems %v (%s)", nodes, n.Memory.GetResourceIsolationLevel(pod, c))
		for _, block := range n.Memory.GetMemory(n.Logger, uid, c.Name) {
			fmt.Fprintf(&b, " %s %s", block.Type, quantity(block.Size))
		}
		b.WriteString(n.Devices.describe(uid, c.Name) + "\n")
	}
	return b.String()
}

// Affinities is what the topology manager tells about each container of the
// pods, known to it or not.
func (n *Node) Affinities(pods []*v1.Pod) string {
	var b strings.Builder
	for _, pod := range pods {
		for c := range Containers(pod) {
			hint := n.Topology.GetAffinity(n.Logger, string(pod.UID), c.Name)
			where := "any"
			if hint.NUMANodeAffinity != nil {
				where = fmt.Sprint(hint.NUMANodeAffinity.GetBits())
			}
			fmt.Fprintf(&b, "%s/%s: %s preferred=%t\n", pod.Name, c.Name, where, hint.Preferred)
		}
	}
	return b.String()
}

func quantity(bytes uint64) string {
	return resource.NewQuantity(int64(bytes), resource.BinarySI).String()
}

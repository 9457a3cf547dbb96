// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

// notes is what is to be said about a source, one sentence for each subject: the
// first one said is the most exact.
type notes struct {
	texts []string
	said  map[string]bool
}

// The subjects that lacks speaks about unless the reader has.
const (
	aboutMemory, aboutHugePages, aboutDistances, aboutCaches = "memory", "hugepages", "distances", "caches"
)

func (n *notes) add(about, format string, args ...any) {
	if n.said == nil {
		n.said = map[string]bool{}
	}
	if n.said[about] {
		return
	}
	n.said[about] = true
	n.texts = append(n.texts, fmt.Sprintf(format, args...))
}

// lacks says what the machine as it was read does not have and a source of its
// kind could have told, and what it has that not all managers work with.
func (n *notes) lacks(name string, m machine.Machine) {
	if m.Memory() == 0 {
		n.add(aboutMemory, "%s tells no memory, and nothing that asks for memory fits without; \"podslice machine -o yaml\" writes a description to which it can be added", name)
	}
	n.beyondMasks(name, m)
	if len(m.Nodes) > 1 && m.Nodes[0].Distances == nil {
		n.add(aboutDistances, "%s tells no distances between the NUMA nodes", name)
	}
	var without []int
	for _, c := range m.CPUs {
		if c.Cache == machine.NoCache {
			without = append(without, c.ID)
		}
	}
	if len(without) > 0 {
		n.add(aboutCaches, "%s tells no last-level cache of the CPUs %s; the CPU manager takes their socket for it", name, cpuset.New(without...))
	}
}

// beyondMasks says which managers do not work because of a node's number.
func (n *notes) beyondMasks(name string, m machine.Machine) {
	beyond := func(node int) bool { return node > machine.MaxManagedNode }
	i := slices.IndexFunc(m.Nodes, func(node machine.Node) bool { return beyond(node.ID) })
	if i < 0 {
		return
	}
	only := "the topology manager works only with the policy none here, and the memory manager with None"
	if slices.ContainsFunc(m.CPUs, func(c machine.CPU) bool { return beyond(c.Node) }) {
		only = "the CPU and the topology manager work only with the policy none here, and the memory manager with None"
	}
	n.add("node numbers", "%s has the NUMA node %d, and the kubelet's managers know only the numbers 0 to %d: %s",
		name, m.Nodes[i].ID, machine.MaxManagedNode, only)
}

// lacksHugePages is for sources that list pools of hugepages even if they are
// empty.
func (n *notes) lacksHugePages(name string, m machine.Machine) {
	if !slices.ContainsFunc(m.Nodes, func(node machine.Node) bool { return len(node.HugePages) > 0 }) {
		n.add(aboutHugePages, "%s tells no hugepages of the NUMA nodes", name)
	}
}

// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/mistyped"
)

// isReport is whether a document is cAdvisor's MachineInfo.
func isReport(text []byte) bool {
	var report struct {
		NumCores *json.RawMessage `json:"num_cores"`
		Topology *json.RawMessage `json:"topology"`
	}
	// What is wrong behind it is for readReport to say.
	return json.NewDecoder(bytes.NewReader(text)).Decode(&report) == nil && (report.NumCores != nil || report.Topology != nil)
}

// readReport reads cAdvisor's MachineInfo. Its other fields may be of any type: they
// change from version to version.
func readReport(file string, text []byte) (machine.Machine, []string, error) {
	name := nameOf(file)
	var report struct {
		NumCores       int                `json:"num_cores"`
		MemoryCapacity uint64             `json:"memory_capacity"`
		Topology       []cadvisorapi.Node `json:"topology"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%s: cannot read cAdvisor's MachineInfo: %w", file, mistyped.Explain(err, text, &report))
	}
	info := &cadvisorapi.MachineInfo{NumCores: report.NumCores, MemoryCapacity: report.MemoryCapacity, Topology: report.Topology}
	var n notes
	if !strings.Contains(string(text), `"socket_id"`) {
		n.add("sockets", "%s tells no sockets (socket_id, by older versions of cAdvisor); all cores are on socket 0, as the kubelet would see it", name)
	}
	m, err := fromReport(name, info, &n)
	if err != nil {
		return machine.Machine{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	n.lacksHugePages(name, m)
	n.lacks(name, m)
	return m, n.texts, nil
}

// fromReport turns a report into a machine. What only package machine cannot hold,
// and the kubelet does not look at, is changed first.
func fromReport(name string, info *cadvisorapi.MachineInfo, n *notes) (machine.Machine, error) {
	if len(info.Topology) == 0 {
		return machine.Machine{}, errors.New("topology: there are no NUMA nodes in it, so the kubelet's managers would see no CPU")
	}
	renumberSockets(name, info.Topology, n)
	renumberCores(name, info.Topology, n)
	renumberCaches(name, info.Topology, n)
	dropDistances(name, info.Topology, n)
	dropHugePages(name, info.Topology, n)
	m, err := machine.FromMachineInfo(name, info)
	sizeless(name, m, info.Topology, n)
	return m, err
}

// sizeless says which caches have lost their sizes.
func sizeless(name string, m machine.Machine, nodes []cadvisorapi.Node, n *notes) {
	for _, c := range m.Caches {
		for _, told := range allCaches(nodes) {
			if told.Id == c.ID && told.Level > 2 && told.Size != c.Size && c.Size == 0 {
				n.add("cache sizes", "%s has caches of different sizes with the ID %d; the kubelet takes them for one", name, c.ID)
			}
		}
	}
}

// free gives out numbers that are not in use.
type free struct {
	used map[int]bool
	next int
}

func (f *free) take() int {
	for f.used[f.next] {
		f.next++
	}
	f.used[f.next] = true
	return f.next
}

func isID(id int) bool { return id >= 0 && id <= math.MaxInt32 }

// renumberSockets is for kernels that do not know a CPU's socket and print -1.
func renumberSockets(name string, nodes []cadvisorapi.Node, n *notes) {
	numbers := free{used: map[int]bool{}}
	for _, core := range allCores(nodes) {
		numbers.used[core.SocketID] = true
	}
	anew := map[int]int{}
	for _, core := range allCores(nodes) {
		if isID(core.SocketID) {
			continue
		}
		if _, ok := anew[core.SocketID]; !ok {
			anew[core.SocketID] = numbers.take()
			n.add("socket numbers", "%s has a socket %d, which is no number of a socket; it is called %d here", name, core.SocketID, anew[core.SocketID])
		}
		core.SocketID = anew[core.SocketID]
	}
}

// renumberCores makes the numbers of cores differ within a socket. The kubelet
// tells cores apart within a node, and by their CPUs.
func renumberCores(name string, nodes []cadvisorapi.Node, n *notes) {
	sockets := map[int]*free{}
	for _, core := range allCores(nodes) {
		if sockets[core.SocketID] == nil {
			sockets[core.SocketID] = &free{used: map[int]bool{}}
		}
		sockets[core.SocketID].used[core.Id] = true
	}
	type key struct{ socket, core int }
	seen := map[key]bool{}
	for _, core := range allCores(nodes) {
		k := key{core.SocketID, core.Id}
		switch {
		case !isID(core.Id):
			core.Id = sockets[core.SocketID].take()
			n.add("core numbers", "%s has a core %d, which is no number of a core; to the kubelet its CPUs %s are one core, which is called %d here",
				name, k.core, cpuset.New(core.Threads...), core.Id)
		case seen[k]:
			core.Id = sockets[core.SocketID].take()
			n.add("core numbers", "%s has more than one core %d on socket %d; such cores are numbered anew here, for the kubelet tells them apart by their CPUs",
				name, k.core, k.socket)
		}
		seen[k] = true
	}
}

// renumberCaches is for IDs beyond what package machine can hold.
func renumberCaches(name string, nodes []cadvisorapi.Node, n *notes) {
	numbers, anew := free{used: map[int]bool{}}, map[int]int{}
	for _, c := range allCaches(nodes) {
		numbers.used[c.Id] = true
	}
	for _, c := range allCaches(nodes) {
		if isID(c.Id) {
			continue
		}
		if _, ok := anew[c.Id]; !ok {
			anew[c.Id] = numbers.take()
			n.add("cache numbers", "%s has the cache %d, which is called %d here", name, c.Id, anew[c.Id])
		}
		c.Id = anew[c.Id]
	}
}

// dropDistances leaves distances out that cannot be right.
func dropDistances(name string, nodes []cadvisorapi.Node, n *notes) {
	for _, node := range nodes {
		if (len(node.Distances) == 0) == (len(nodes[0].Distances) == 0) && (len(node.Distances) == 0 || len(node.Distances) == len(nodes)) {
			continue
		}
		n.add(aboutDistances, "%s tells %d distances of NUMA node %d, but has %d nodes; all distances are left out", name, len(node.Distances), node.Id, len(nodes))
		for i := range nodes {
			nodes[i].Distances = nil
		}
		return
	}
	for i := range nodes {
		if len(nodes[i].Distances) == 0 {
			nodes[i].Distances = nil
		}
	}
}

// dropHugePages leaves hugepages out that the node has no memory for, as in copies
// that lack the memory.
func dropHugePages(name string, nodes []cadvisorapi.Node, n *notes) {
	for i, node := range nodes {
		left := node.Memory / 1024
		for _, h := range node.HugePages {
			if h.PageSize == 0 {
				continue // FromMachineInfo says what is wrong
			}
			if h.NumPages > left/h.PageSize {
				n.add(aboutHugePages, "%s tells %d hugepages of %d KiB on NUMA node %d, more than its %d KiB of memory; they are left out",
					name, h.NumPages, h.PageSize, node.Id, node.Memory/1024)
				nodes[i].HugePages = nil
				break
			}
			left -= h.NumPages * h.PageSize
		}
	}
}

func allCores(nodes []cadvisorapi.Node) (all []*cadvisorapi.Core) {
	for i := range nodes {
		for j := range nodes[i].Cores {
			all = append(all, &nodes[i].Cores[j])
		}
	}
	return all
}

func allCaches(nodes []cadvisorapi.Node) (all []*cadvisorapi.Cache) {
	for i := range nodes {
		for j := range nodes[i].Caches {
			all = append(all, &nodes[i].Caches[j])
		}
	}
	for _, core := range allCores(nodes) {
		for j := range core.UncoreCaches {
			all = append(all, &core.UncoreCaches[j])
		}
	}
	return all
}

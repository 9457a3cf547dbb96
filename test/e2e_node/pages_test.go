// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/numamaps"
	"github.com/podslice/podslice/test/e2e_node/report"
)

// limitPages is for containers that run to write their memory.
const limitPages = 5 * time.Minute

// TestPagesLieOnTheirNodes lets containers write ordinary pages and hugepages and
// asks the kernel on which NUMA nodes they lie. These must be the nodes that the
// container's cpuset names, all of them; which must be the expected ones, those of
// the container's CPUs, and what the memory manager has recorded.
//
// The containers want their pages on all nodes alike (pagewitness), so that they
// lie on one only where they are kept there.
func TestPagesLieOnTheirNodes(t *testing.T) {
	onlyWhole(t)
	for _, test := range pagesCases {
		t.Run(test.name, func(t *testing.T) {
			n := freshNode(t)
			reserveHugepages(t, n, test.huge)
			_, err := n.Guest.Output(ctx, fmt.Sprintf("rm -rf %[1]s && mkdir -p %[1]s", pagesFolder))
			must(t, err)
			must(t, n.StartKubelet(ctx, node.Pinned(shape, test.policy, test.scope)))
			var r *report.Report
			for _, pod := range test.pods {
				m := pod.manifest(t)
				must(t, n.AddPod(ctx, m))
				r, err = n.WaitRunning(ctx, m)
				must(t, err)
			}
			memory := readMemoryState(t, r)
			for _, pod := range test.pods {
				t.Run(pod.name, func(t *testing.T) { checkPages(t, n, r, memory, pod, test.scope) })
			}
		})
	}
}

// reserveHugepages gives each NUMA node hugepages until the test ends. A kubelet
// sees those that are there when it starts. They count as memory of the node that
// is not allocatable, so nothing else has to be set aside for them.
func reserveHugepages(t *testing.T, n *node.Node, bytes int64) {
	t.Helper()
	m, err := n.Machine(ctx)
	must(t, err)
	var nodes []int
	for _, node := range m.Nodes {
		if node.Memory > 0 {
			nodes = append(nodes, node.ID)
		}
	}
	file := func(id int) string {
		return fmt.Sprintf("/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", id)
	}
	t.Cleanup(func() {
		// Pages in use would count on until their pods go. A test that failed has its
		// logs collected after this, and leaves its pods to the next one.
		if ctx.Err() == nil && !t.Failed() {
			if err := n.Wipe(ctx); err != nil {
				t.Error(err)
			}
		}
		for _, id := range nodes {
			if _, err := n.Guest.Output(ctx, "echo 0 > "+file(id)); err != nil && ctx.Err() == nil {
				t.Errorf("taking back hugepages: %v", err)
			}
		}
	})
	for _, id := range nodes {
		out, err := n.Guest.Output(ctx, fmt.Sprintf("echo %d > %s && cat %s", bytes/hugePage, file(id), file(id)))
		must(t, err)
		if got := strings.TrimSpace(out); got != fmt.Sprint(bytes/hugePage) {
			t.Fatalf("NUMA node %d has %s hugepages of 2Mi, want %d", id, got, bytes/hugePage)
		}
	}
}

func checkPages(t *testing.T, n *node.Node, r *report.Report, memory memoryState, want pagesPod, scope string) {
	pod := r.Pod(want.name + "-node1")
	if pod == nil {
		t.Fatalf("the kubelet has no pod %s", want.name)
	}
	all := cpuset.New()   // nodes that the pod's memory is bound to
	apart := cpuset.New() // of its slices on one node of two
	for _, c := range want.containers {
		t.Run(c.name, func(t *testing.T) {
			is := named(t, pod, c.name)
			recorded := memory.Entries[pod.UID][c.name]
			equal(t, "cpuset.mems.effective", is.MemsEffective, is.MemsAllowed)
			mems := parse(t, is.MemsAllowed)
			if c.mems == unbound {
				equal(t, "cpuset.mems", is.Mems, "")
				equal(t, "NUMA nodes that the process may use", mems.Size(), shape.Nodes)
				equal(t, "recorded blocks", len(recorded), 0)
			} else {
				equal(t, "cpuset.mems", is.Mems, mems.String())
				equal(t, "cpuset.mems, the nodes of its CPUs "+is.CPUs, is.Mems, nodesOf(t, r.Machine, is.CPUs).String())
				size := c.own
				if size.cpus == 0 {
					size = want.pool()
				}
				checkBlocks(t, recorded, size, mems)
				all = all.Union(mems)
			}
			switch c.mems {
			case unbound, itsNodes:
			case oneNode:
				equal(t, "number of NUMA nodes in cpuset.mems "+is.Mems, mems.Size(), 1)
				apart = apart.Union(mems)
			default:
				equal(t, "cpuset.mems", is.Mems, c.mems)
			}

			result := readPages(t, n, want.resultFile(c))
			checkMapping(t, "ordinary pages", result.Small, 4<<10, writtenMemory, mems)
			if c.huge > 0 {
				checkMapping(t, "hugepages", result.Huge, hugePage, c.huge, mems)
			}
			say("%s of %s: CPUs %s, cpuset.mems %q, recorded %v; %v; %v", c.name, want.name, is.CPUs, is.Mems, recorded, result.Small, result.Huge)
		})
	}
	if apart.Size() > 0 {
		equal(t, "NUMA nodes of the slices, which must not be on the same", apart.Size(), shape.Nodes)
	}
	if whole := memory.PodEntries[pod.UID].MemoryBlocks; scope == "pod" && want.budget.cpus > 0 {
		checkBlocks(t, whole, want.budget, all)
	} else {
		equal(t, "recorded blocks of the pod as a whole", len(whole), 0)
	}
}

// checkMapping asserts that as much was written as was wanted, and that it lies
// on all of the nodes and on no other.
func checkMapping(t *testing.T, what string, m *numamaps.Mapping, pageSize, bytes int64, mems cpuset.CPUSet) {
	t.Helper()
	if m == nil {
		t.Errorf("%s: none were written", what)
		return
	}
	equal(t, what+": page size", m.PageSize, pageSize)
	equal(t, what+": bytes written", m.Bytes(), bytes)
	equal(t, what+": policy", m.Policy, "interleave:"+mems.String())
	equal(t, fmt.Sprintf("%s: NUMA nodes of %s", what, m), cpuset.New(m.Nodes()...).String(), mems.String())
}

// readPages waits for a container's result.
func readPages(t *testing.T, n *node.Node, file string) numamaps.Result {
	t.Helper()
	limit, cancel := context.WithTimeout(ctx, limitPages)
	defer cancel()
	for {
		out, err := n.Guest.Run(limit, "cat "+path.Join(pagesFolder, file))
		if err != nil {
			t.Fatalf("the result of %s: %v", file, err)
		}
		if out.ExitCode != 0 { // it is not there yet
			time.Sleep(time.Second)
			continue
		}
		var r numamaps.Result
		must(t, json.Unmarshal([]byte(out.Stdout), &r))
		if r.Error != "" {
			limits, _ := n.Guest.Run(ctx, "cd /sys/fs/cgroup && find kubepods -name 'hugetlb.2MB*max' | xargs grep -H .")
			t.Fatalf("%s: %s\n%s", file, r.Error, limits.Stdout)
		}
		return r
	}
}

// nodesOf returns the NUMA nodes of some CPUs.
func nodesOf(t *testing.T, m report.Machine, cpus string) cpuset.CPUSet {
	t.Helper()
	set, nodes := parse(t, cpus), cpuset.New()
	for _, cpu := range m.CPUs {
		if set.Contains(cpu.ID) {
			nodes = nodes.Union(cpuset.New(cpu.Node))
		}
	}
	return nodes
}

// memoryState is what the memory manager has recorded, read without any of its
// own code.
type memoryState struct {
	Entries    map[string]map[string][]memoryBlock             `json:"entries"`
	PodEntries map[string]struct{ MemoryBlocks []memoryBlock } `json:"podEntries"`
	// MachineState is by NUMA node, and what it has by resource.
	MachineState map[int]struct {
		MemoryMap map[string]struct{ Free uint64 }
	} `json:"machineState"`
}

type memoryBlock struct {
	NUMAAffinity []int
	Type         string
	Size         int64
}

func (b memoryBlock) String() string {
	return fmt.Sprintf("%s %dMi on %s", b.Type, b.Size/mi, cpuset.New(b.NUMAAffinity...))
}

func readMemoryState(t *testing.T, r *report.Report) memoryState {
	t.Helper()
	// The state is a JSON text inside the file's.
	var file struct{ Data string }
	must(t, json.Unmarshal(r.States["memory_manager_state"], &file))
	var s memoryState
	must(t, json.Unmarshal([]byte(file.Data), &s))
	return s
}

// checkBlocks compares what is recorded with the amounts and nodes that it must be.
func checkBlocks(t *testing.T, blocks []memoryBlock, want amounts, nodes cpuset.CPUSet) {
	t.Helper()
	sizes := map[string]int64{}
	for _, b := range blocks {
		equal(t, fmt.Sprintf("nodes of the recorded block %s", b), cpuset.New(b.NUMAAffinity...).String(), nodes.String())
		sizes[b.Type] += b.Size
	}
	equal(t, "recorded memory", sizes["memory"], want.memory)
	equal(t, "recorded hugepages", sizes[resourceHuge], want.huge)
	for name := range sizes {
		if name != "memory" && name != resourceHuge {
			t.Errorf("recorded: %s", name)
		}
	}
}

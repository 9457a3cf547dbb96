// SPDX-License-Identifier: Apache-2.0

package statecheck

import (
	"fmt"
	"maps"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
)

// Files are the contents of the managers' state files.
type Files struct {
	CPU, Memory []byte
}

// Machine is the node that the files are from, and what its kubelet keeps for the
// system.
type Machine struct {
	Info           *cadvisorapi.MachineInfo
	ReservedCPUs   cpuset.CPUSet
	ReservedMemory map[int]int64 // bytes by NUMA node
}

func (m Machine) online() cpuset.CPUSet {
	cpus := cpuset.New()
	for _, node := range m.Info.Topology {
		for _, core := range node.Cores {
			cpus = cpus.Union(cpuset.New(core.Threads...))
		}
	}
	return cpus
}

// problems is what was found so far, each with where.
type problems struct {
	where string
	list  []string
}

func (p *problems) add(format string, args ...any) {
	p.list = append(p.list, p.where+": "+fmt.Sprintf(format, args...))
}

// Verify returns what is wrong with the files of a node with the policies static
// and Static. Containers of the pods, by UID, are checked against each other; of
// others, only that they stay within their pods.
func Verify(m Machine, f Files, pods map[string]*v1.Pod) []string {
	p := &problems{}
	verifyCPUs(p, m, f.CPU, pods)
	verifyMemory(p, m, f.Memory)
	return p.list
}

func verifyCPUs(p *problems, m Machine, blob []byte, pods map[string]*v1.Pod) {
	p.where = "CPU file"
	// Absent maps count as empty ones for the checksum.
	file := &cpustate.CPUManagerCheckpoint{CPUManagerCheckpointV2: cpustate.CPUManagerCheckpointV2{Entries: map[string]map[string]string{}}}
	if err := file.UnmarshalCheckpoint(blob); err != nil {
		p.add("%v", err)
		return
	}
	if err := file.VerifyChecksum(); err != nil {
		p.add("checksum of the data: %v", err)
	}
	if err := file.CPUManagerCheckpointV2.VerifyChecksum(); err != nil {
		p.add("checksum of the part for older kubelets: %v", err)
	}
	data := file.CheckpointData
	whole := map[string]cpuset.CPUSet{}
	for uid, entry := range data.PodEntries {
		whole[uid] = entry.CPUSet
	}
	for _, part := range []struct {
		where, policy, pool string
		entries             map[string]map[string]string
		whole               map[string]cpuset.CPUSet
	}{
		{"CPU file, data", data.PolicyName, data.DefaultCPUSet, data.Entries, whole},
		{"CPU file, part for older kubelets", file.PolicyName, file.DefaultCPUSet, file.Entries, nil},
	} {
		p.where = part.where
		if part.policy != "static" {
			p.add("policy %q", part.policy)
		}
		containers := map[string]map[string]cpuset.CPUSet{}
		for uid, entries := range part.entries {
			containers[uid] = map[string]cpuset.CPUSet{}
			for name, cpus := range entries {
				containers[uid][name] = parse(p, cpus)
			}
		}
		verifyAssignments(p, m.online(), parse(p, part.pool), containers, part.whole)
		verifySiblings(p, containers, part.whole, pods)
	}
}

func parse(p *problems, cpus string) cpuset.CPUSet {
	set, err := cpuset.Parse(cpus)
	if err != nil {
		p.add("CPUs %q: %v", cpus, err)
	}
	return set
}

// verifyAssignments finds CPUs that two pods have, and those that are in the
// shared pool and must not be, or the other way round.
func verifyAssignments(p *problems, online, pool cpuset.CPUSet, containers map[string]map[string]cpuset.CPUSet, whole map[string]cpuset.CPUSet) {
	byPod := maps.Clone(whole)
	if byPod == nil {
		byPod = map[string]cpuset.CPUSet{}
	}
	for uid, entries := range containers {
		all := cpuset.New()
		for _, cpus := range entries {
			all = all.Union(cpus)
		}
		own, ok := whole[uid]
		if ok && !all.IsSubsetOf(own) {
			p.add("containers of pod %s have CPUs %s, the pod has %s", uid, all, own)
		}
		byPod[uid] = byPod[uid].Union(all)
	}
	assigned := cpuset.New()
	for _, uid := range slices.Sorted(maps.Keys(byPod)) {
		if both := byPod[uid].Intersection(assigned); !both.IsEmpty() {
			p.add("CPUs %s of pod %s are another pod's, too", both, uid)
		}
		assigned = assigned.Union(byPod[uid])
	}
	if want := online.Difference(assigned); !pool.Equals(want) {
		p.add("the shared pool is %s; of the online CPUs %s no pod has %s", pool, online, want)
	}
}

// verifySiblings finds containers of a pod that run at the same time and have
// some CPUs in common but not all. All in common is the pod shared pool.
func verifySiblings(p *problems, containers map[string]map[string]cpuset.CPUSet, whole map[string]cpuset.CPUSet, pods map[string]*v1.Pod) {
	for uid, pod := range pods {
		var together []string
		for _, c := range pod.Spec.InitContainers {
			if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
				together = append(together, c.Name)
			}
		}
		for _, c := range pod.Spec.Containers {
			together = append(together, c.Name)
		}
		for i, a := range together {
			for _, b := range together[:i] {
				of, and := containers[uid][a], containers[uid][b]
				both := of.Intersection(and)
				if _, ok := whole[uid]; both.IsEmpty() || of.Equals(and) && (ok || whole == nil) {
					continue
				}
				p.add("containers %s and %s of pod %s have CPUs %s and %s", b, a, uid, and, of)
			}
		}
	}
}

func verifyMemory(p *problems, m Machine, blob []byte) {
	p.where = "memory file"
	file := &memorystate.MemoryManagerCheckpoint{MemoryManagerCheckpointV1: memorystate.MemoryManagerCheckpointV1{
		MachineState: memorystate.NUMANodeMap{}, Entries: memorystate.ContainerMemoryAssignments{},
	}}
	if err := file.UnmarshalCheckpoint(blob); err != nil {
		p.add("%v", err)
		return
	}
	if err := file.VerifyChecksum(); err != nil {
		p.add("checksum of the data: %v", err)
	}
	if err := file.MemoryManagerCheckpointV1.VerifyChecksum(); err != nil {
		p.add("checksum of the part for older kubelets: %v", err)
	}
	data := file.CheckpointData
	for _, part := range []struct {
		where, policy string
		machine       memorystate.NUMANodeMap
		entries       memorystate.ContainerMemoryAssignments
		whole         memorystate.PodMemoryAssignments
	}{
		{"memory file, data", data.PolicyName, data.MachineState, data.Entries, data.PodEntries},
		{"memory file, part for older kubelets", file.PolicyName, file.MachineState, file.Entries, nil},
	} {
		p.where = part.where
		if part.policy != "Static" {
			p.add("policy %q", part.policy)
		}
		var blocks []memorystate.Block
		for uid, entries := range part.entries {
			if _, ok := part.whole[uid]; ok {
				continue // part of what the pod has
			}
			for _, own := range entries {
				blocks = append(blocks, own...)
			}
		}
		for _, entry := range part.whole {
			blocks = append(blocks, entry.MemoryBlocks...)
		}
		verifyTables(p, m, part.machine)
		verifyBlocks(p, part.machine, blocks)
	}
}

// verifyTables compares the sizes of the NUMA nodes with those of the machine.
func verifyTables(p *problems, m Machine, nodes memorystate.NUMANodeMap) {
	if len(nodes) != len(m.Info.Topology) {
		p.add("%d NUMA nodes, the machine has %d", len(nodes), len(m.Info.Topology))
	}
	for _, real := range m.Info.Topology {
		node := nodes[real.Id]
		if node == nil {
			p.add("NUMA node %d is missing", real.Id)
			continue
		}
		reserved := map[v1.ResourceName]uint64{v1.ResourceMemory: uint64(m.ReservedMemory[real.Id])}
		allocatable := map[v1.ResourceName]uint64{v1.ResourceMemory: real.Memory - reserved[v1.ResourceMemory]}
		for _, pages := range real.HugePages {
			size := pages.PageSize << 10 * pages.NumPages
			allocatable[hugepages(pages.PageSize)] = size
			allocatable[v1.ResourceMemory] -= size
		}
		for name, want := range allocatable {
			table := node.MemoryMap[name]
			switch {
			case table == nil:
				p.add("NUMA node %d has no %s", real.Id, name)
			case table.Allocatable != want || table.SystemReserved != reserved[name]:
				p.add("%s of NUMA node %d: %d can be given out and %d are reserved, want %d and %d",
					name, real.Id, table.Allocatable, table.SystemReserved, want, reserved[name])
			case table.Reserved+table.Free != table.Allocatable:
				p.add("%s of NUMA node %d: %d are used and %d are free of %d", name, real.Id, table.Reserved, table.Free, table.Allocatable)
			}
		}
	}
}

// hugepages names the resource of pages of a size in KiB.
func hugepages(size uint64) v1.ResourceName {
	if size >= 1<<20 {
		return v1.ResourceName(fmt.Sprintf("%s%dGi", v1.ResourceHugePagesPrefix, size>>20))
	}
	return v1.ResourceName(fmt.Sprintf("%s%dMi", v1.ResourceHugePagesPrefix, size>>10))
}

// verifyBlocks finds amounts that do not add up to what the NUMA nodes say is
// used. Where blocks lie on several nodes, these are added up together.
func verifyBlocks(p *problems, nodes memorystate.NUMANodeMap, blocks []memorystate.Block) {
	type pool struct {
		group    string
		resource v1.ResourceName
	}
	group := func(ids []int) string { return cpuset.New(ids...).String() }
	sums, counts := map[pool]uint64{}, map[int]int{}
	for _, b := range blocks {
		sums[pool{group(b.NUMAAffinity), b.Type}] += b.Size
		for _, id := range b.NUMAAffinity {
			counts[id]++
			if node := nodes[id]; node != nil && group(node.Cells) != group(b.NUMAAffinity) {
				p.add("a block of %s lies on NUMA nodes %v, and node %d is grouped as %v", b.Type, b.NUMAAffinity, id, node.Cells)
			}
		}
	}
	used := map[pool]uint64{}
	for id, node := range nodes {
		if node.NumberOfAssignments != counts[id] {
			p.add("NUMA node %d counts %d blocks and has %d", id, node.NumberOfAssignments, counts[id])
		}
		for name, table := range node.MemoryMap {
			used[pool{group(node.Cells), name}] += table.Reserved
		}
	}
	for key, size := range sums {
		if used[key] != size {
			p.add("%s on NUMA nodes %s: blocks of %d, and %d are used", key.resource, key.group, size, used[key])
		}
	}
	for key, size := range used {
		if _, ok := sums[key]; !ok && size > 0 {
			p.add("%s on NUMA nodes %s: no blocks, and %d are used", key.resource, key.group, size)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/utils/cpuset"

	cpustate "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	memorystate "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/test/simnode"
)

// files is what the two state files say.
type files struct {
	cpuText, memoryText       []byte
	cpuVersion, memoryVersion version
	cpuPolicy                 string
	shared                    cpuset.CPUSet
	cpus                      map[string]cpuHolding
	memoryPolicy              string
	memory                    map[string]memoryHolding
}

// read reads the files again as far as they have changed.
func (f files) read(n *simnode.Node) (files, error) {
	cpuText, err := f.cpuVersion.read(filepath.Join(n.Dir, "cpu_manager_state"), f.cpuText)
	if err == nil && !bytes.Equal(cpuText, f.cpuText) {
		err = f.parseCPUs(cpuText)
	}
	if err != nil {
		return f, wrong("file", "the CPU manager's: %v", err)
	}
	memoryText, err := f.memoryVersion.read(filepath.Join(n.Dir, "memory_manager_state"), f.memoryText)
	if err == nil && !bytes.Equal(memoryText, f.memoryText) {
		err = f.parseMemory(memoryText)
	}
	if err != nil {
		return f, wrong("file", "the memory manager's: %v", err)
	}
	return f, nil
}

// version tells a file from the one that was there before: managers replace theirs.
type version struct {
	inode    uint64
	size     int64
	modified syscall.Timespec
}

// read reads the file, unless it is the one whose text is known.
func (v *version) read(path string, text []byte) ([]byte, error) {
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return nil, err
	}
	now := version{stat.Ino, stat.Size, stat.Mtim}
	if *v == now {
		return text, nil
	}
	*v = now
	return os.ReadFile(path)
}

func (f *files) parseCPUs(text []byte) error {
	var checkpoint cpustate.CPUManagerCheckpoint
	if err := checkpoint.UnmarshalCheckpoint(text); err != nil {
		return err
	}
	if err := checkpoint.VerifyChecksum(); err != nil {
		return err
	}
	data := checkpoint.CheckpointData
	var err error
	if f.shared, err = cpuset.Parse(data.DefaultCPUSet); err != nil {
		return err
	}
	cpus := map[string]cpuHolding{}
	for uid, containers := range data.Entries {
		h := cpuHolding{containers: map[string]cpuset.CPUSet{}}
		for name, list := range containers {
			if h.containers[name], err = cpuset.Parse(list); err != nil {
				return err
			}
		}
		cpus[uid] = h
	}
	for uid, pod := range data.PodEntries {
		h := cpus[uid]
		h.pod = pod.CPUSet
		cpus[uid] = h
	}
	f.cpuText, f.cpuPolicy, f.cpus = text, data.PolicyName, cpus
	return nil
}

func (f *files) parseMemory(text []byte) error {
	var checkpoint memorystate.MemoryManagerCheckpoint
	if err := checkpoint.UnmarshalCheckpoint(text); err != nil {
		return err
	}
	if err := checkpoint.VerifyChecksum(); err != nil {
		return err
	}
	data := checkpoint.CheckpointData
	f.memoryText, f.memoryPolicy = text, data.PolicyName
	f.memory = memoryHoldings(data.Entries, data.PodEntries)
	return nil
}

func memoryHoldings(containers memorystate.ContainerMemoryAssignments, pods memorystate.PodMemoryAssignments) map[string]memoryHolding {
	all := map[string]memoryHolding{}
	for uid, blocks := range containers {
		all[uid] = memoryHolding{containers: blocks}
	}
	for uid, pod := range pods {
		h := all[uid]
		h.pod = pod.MemoryBlocks
		all[uid] = h
	}
	return all
}

func cpuHoldings(state cpustate.Reader) map[string]cpuHolding {
	all := map[string]cpuHolding{}
	for uid, containers := range state.GetCPUAssignments() {
		all[uid] = cpuHolding{containers: containers}
	}
	for uid, pod := range state.GetPodCPUAssignments() {
		h := all[uid]
		h.pod = pod.CPUSet
		all[uid] = h
	}
	return all
}

// checkFiles checks that the files say what the managers tell.
func (w *world) checkFiles() (err error) {
	n := w.node()
	if w.files, err = w.files.read(n); err != nil || w.behind {
		return err
	}
	f, cpus := w.files, n.CPU.State()
	if staticCPU(n.Settings) {
		if told := cpuHoldings(cpus); !maps.EqualFunc(told, f.cpus, cpuHolding.equal) || !alike(cpus.GetDefaultCPUSet(), f.shared) {
			return wrong("file", "the CPU manager tells %v, shared %s; its file says %v, shared %s", told, cpus.GetDefaultCPUSet(), f.cpus, f.shared)
		}
	}
	memory := n.Memory.State()
	if told := memoryHoldings(memory.GetMemoryAssignments(), memory.GetPodMemoryAssignments()); !maps.EqualFunc(told, f.memory, memoryHolding.equal) {
		return wrong("file", "the memory manager tells %v, its file says %v", told, f.memory)
	}
	return nil
}

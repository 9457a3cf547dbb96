// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/e2e_node/report"
)

// readMachine reads the hardware from a sysfs tree.
func readMachine(sys fs.FS) (report.Machine, error) {
	var m report.Machine
	nodeOf := map[int]int{}
	dirs, err := fs.Glob(sys, "devices/system/node/node[0-9]*")
	if err != nil {
		return m, err
	}
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node"))
		if err != nil {
			continue
		}
		cpus := text(sys, path.Join(dir, "cpulist"))
		set, err := cpuset.Parse(cpus)
		if err != nil {
			return m, fmt.Errorf("CPUs of NUMA node %d: %w", id, err)
		}
		for _, cpu := range set.UnsortedList() {
			nodeOf[cpu] = id
		}
		m.Nodes = append(m.Nodes, report.Node{ID: id, CPUs: cpus, Memory: memTotal(text(sys, path.Join(dir, "meminfo")))})
	}
	sort.Slice(m.Nodes, func(i, j int) bool { return m.Nodes[i].ID < m.Nodes[j].ID })

	online, err := cpuset.Parse(text(sys, "devices/system/cpu/online"))
	if err != nil {
		return m, fmt.Errorf("online CPUs: %w", err)
	}
	for _, cpu := range online.List() {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d", cpu)
		socket, err := strconv.Atoi(text(sys, path.Join(dir, "topology/physical_package_id")))
		if err != nil {
			return m, fmt.Errorf("socket of CPU %d: %w", cpu, err)
		}
		m.CPUs = append(m.CPUs, report.CPU{
			ID: cpu, Node: nodeOf[cpu], Socket: socket,
			Siblings: text(sys, path.Join(dir, "topology/thread_siblings_list")),
			L3:       text(sys, path.Join(dir, "cache/index3/shared_cpu_list")),
		})
	}
	return m, nil
}

// memTotal finds "Node 0 MemTotal: 123 kB" and returns bytes.
func memTotal(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) >= 4 && f[2] == "MemTotal:" {
			kb, _ := strconv.ParseInt(f[3], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// text returns a small file without its line end; "" if it cannot be read.
func text(fsys fs.FS, name string) string {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

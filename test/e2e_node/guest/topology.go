// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// checkTopology compares the machine that the guest's kernel sees with a
// shape. QEMU and the processor model decide between them what is seen, and
// everything that is tested on the guest rests on it.
func (g *Guest) checkTopology(ctx context.Context, s Shape) error {
	out, err := g.Output(ctx, "lscpu --extended=CPU,SOCKET,NODE,CORE,CACHE")
	if err != nil {
		return err
	}
	if err := compareTopology(s, out); err != nil {
		return fmt.Errorf("the kernel sees another machine than %q: %w", s, err)
	}
	return nil
}

// kernelShare is the part of a NUMA node's memory that the kernel may keep for
// itself before it counts the rest.
const kernelShare = 8

// TakeFor has a host that was attached stand for an emulated machine of a shape. It
// is an error if it is another machine: CPUs, siblings, last-level caches, sockets
// and memory must be those of the shape, which are what tests rest on.
func (g *Guest) TakeFor(ctx context.Context, s Shape) error {
	if err := g.checkTopology(ctx, s); err != nil {
		return err
	}
	out, err := g.Output(ctx, "grep -h MemTotal: /sys/devices/system/node/node*/meminfo")
	if err != nil {
		return err
	}
	if err := compareMemory(s, out); err != nil {
		return err
	}
	g.Shape = s
	return nil
}

// compareMemory reads lines like "Node 0 MemTotal: 123 kB".
func compareMemory(s Shape, lines string) error {
	nodes := 0
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) != 5 {
			return fmt.Errorf("meminfo line %q has %d fields, want 5", strings.TrimSpace(line), len(f))
		}
		id, err := strconv.Atoi(f[1])
		kilobytes, err2 := strconv.ParseInt(f[3], 10, 64)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("meminfo line %q: %w", strings.TrimSpace(line), err)
		}
		nodes++
		if id >= s.Nodes {
			continue // the number of nodes tells
		}
		if is, want := kilobytes<<10, s.MemoryOf(id); is > want || is < want-want/kernelShare {
			return fmt.Errorf("NUMA node %d has %s of memory, want %s less what the kernel keeps", id, size(is), size(want))
		}
	}
	if nodes != s.Nodes {
		return fmt.Errorf("%d NUMA nodes, want %d", nodes, s.Nodes)
	}
	return nil
}

// compareTopology reads lscpu's table: lines of CPU, socket, node, core and
// caches, which are ids of L1d:L1i:L2:L3.
func compareTopology(s Shape, table string) error {
	type core struct{ socket, core string }
	siblings := map[core][]int{}
	caches := map[string]int{} // the shape's number of an L3 cache, by the kernel's
	kernels := map[int]string{}
	cpus := 0
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "CPU" {
			continue
		}
		line = strings.TrimSpace(line)
		if len(f) != 5 {
			return fmt.Errorf("lscpu line %q has %d fields, want 5", line, len(f))
		}
		cpu, err := strconv.Atoi(f[0])
		if err != nil {
			return fmt.Errorf("lscpu line %q: %w", line, err)
		}
		cpus++
		node := s.NodeOf(cpu)
		socket := s.SocketOf(node)
		if f[2] != strconv.Itoa(node) {
			return fmt.Errorf("CPU %d is on NUMA node %s, want %d", cpu, f[2], node)
		}
		if f[1] != strconv.Itoa(socket) {
			return fmt.Errorf("CPU %d is on socket %s, want %d", cpu, f[1], socket)
		}
		c := core{f[1], f[3]}
		siblings[c] = append(siblings[c], cpu)

		ids := strings.Split(f[4], ":")
		if len(ids) != 4 {
			return fmt.Errorf("CPU %d has caches %q, want L1d, L1i, L2 and L3", cpu, f[4])
		}
		l3, cache := ids[3], s.CacheOf(cpu)
		if was, ok := caches[l3]; ok && was != cache {
			return fmt.Errorf("L3 cache %s is that of the CPUs of cache %d and of cache %d", l3, was, cache)
		}
		if was, ok := kernels[cache]; ok && was != l3 {
			return fmt.Errorf("CPUs of cache %d have L3 caches %s and %s, want one", cache, was, l3)
		}
		caches[l3], kernels[cache] = cache, l3
	}
	if cpus != s.CPUs() {
		return fmt.Errorf("%d CPUs, want %d", cpus, s.CPUs())
	}
	for c, threads := range siblings {
		if len(threads) != s.Threads {
			return fmt.Errorf("core %s of socket %s has CPUs %v, want %d siblings", c.core, c.socket, threads, s.Threads)
		}
		for i, cpu := range threads {
			if cpu != threads[0]+i {
				return fmt.Errorf("core %s of socket %s has CPUs %v, want neighbours", c.core, c.socket, threads)
			}
		}
	}
	return nil
}

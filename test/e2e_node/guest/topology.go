// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// checkTopology compares the machine that the guest's kernel sees with the
// shape. QEMU and the processor model decide between them what is seen, and
// everything that is tested on the guest rests on it.
func (g *Guest) checkTopology(ctx context.Context) error {
	out, err := g.Output(ctx, "lscpu --extended=CPU,SOCKET,NODE,CORE,CACHE")
	if err != nil {
		return err
	}
	if err := compareTopology(g.Shape, out); err != nil {
		return fmt.Errorf("the guest's kernel sees another machine than %q: %w", g.Shape, err)
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

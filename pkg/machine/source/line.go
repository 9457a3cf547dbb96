// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/quantity"
)

// memoryPerCPU is the memory of a machine whose line does not say.
const memoryPerCPU = 4 << 30

// unit is one kind of part of a line.
type unit struct {
	name string   // in notes
	of   string   // what there are so many in
	also []string // other words for it
	each []string // what may stand behind it
}

var units = []unit{
	{"sockets", "the machine", []string{"packages"}, nil},
	{"nodes", "a socket", []string{"numa nodes"}, []string{"each", "per socket", "per package"}},
	{"cores", "a NUMA node", nil, []string{"each", "per node", "per numa node"}},
	{"threads", "a core", nil, []string{"each", "per core"}},
}

const (
	sockets = iota
	nodes
	cores
	threads
)

var linePart = regexp.MustCompile(`^([0-9]+)\s+([a-z][a-z ]*)$`)

// isLine is whether a text that names no file is meant as a line.
func isLine(text string) bool {
	first, _, _ := strings.Cut(text, ",")
	first = strings.TrimSpace(first)
	return strings.Contains(text, ",") && first != "" && first[0] >= '0' && first[0] <= '9' || linePart.MatchString(strings.ToLower(first))
}

// readLine reads a machine of equal parts, for example
//
//	2 sockets, 2 nodes each, 16 cores, 2 threads, 256Gi
//
// Nodes are counted in a socket, cores in a node, threads in a core; the memory is
// the machine's, and every node has as much of it. The parts may stand in any order
// and be left out; there is then one of each, and 4Gi for each CPU. CPUs are
// numbered as Linux does on most servers: first the first threads of all cores, in
// the order of sockets and nodes, then the second ones.
func readLine(line string) (machine.Machine, []string, error) {
	fail := func(format string, args ...any) (machine.Machine, []string, error) {
		return machine.Machine{}, nil, fmt.Errorf("the machine %q: "+format+`; want for example "2 sockets, 2 nodes each, 16 cores, 2 threads, 256Gi"`,
			append([]any{short(line)}, args...)...)
	}
	counts := make([]int, len(units))
	memory := int64(-1)
	for _, part := range strings.Split(line, ",") {
		part = strings.Join(strings.Fields(part), " ")
		if match := linePart.FindStringSubmatch(strings.ToLower(part)); match != nil {
			if i, ok := unitOf(match[2]); ok {
				n, err := strconv.Atoi(match[1])
				switch {
				case counts[i] != 0:
					return fail("%q: the %s are there twice", part, units[i].name)
				case err != nil || n < 1 || n > machine.MaxCPU+1:
					return fail("%q: want a number from 1 to %d", part, machine.MaxCPU+1)
				}
				counts[i] = n
				continue
			}
		}
		amount := strings.TrimSuffix(strings.TrimSuffix(part, " memory"), " of")
		amount = strings.TrimSuffix(strings.ReplaceAll(amount, " ", ""), "B")
		q, err := quantity.Parse(amount)
		switch {
		case err != nil:
			return fail("%q is neither a number of sockets, nodes (each), cores or threads nor an amount of memory", part)
		case strings.Trim(amount, "0123456789") == "":
			return fail("%q: of what? An amount of memory needs a unit, such as Gi", part)
		case memory >= 0:
			return fail("%q: the memory is there twice", part)
		}
		var whole bool
		if memory, whole = q.AsInt64(); !whole || memory < 0 || memory > 1<<59 {
			return fail("%q is not a number of bytes from 0 to 2^59", part)
		}
	}
	var n notes
	for i, u := range units {
		if counts[i] == 0 {
			counts[i] = 1
			n.add(u.name, "the line tells no %s; 1 in %s is taken", u.name, u.of)
		}
	}
	allNodes := counts[sockets] * counts[nodes]
	switch {
	case allNodes > machine.MaxManagedNode+1:
		return fail("%d sockets with %d nodes each are %d NUMA nodes, at most %d are supported", counts[sockets], counts[nodes], allNodes, machine.MaxManagedNode+1)
	case counts[cores] > (machine.MaxCPU+1)/allNodes || counts[threads] > (machine.MaxCPU+1)/allNodes/counts[cores]:
		return fail("%d nodes with %d cores of %d threads are more than the supported %d CPUs", allNodes, counts[cores], counts[threads], machine.MaxCPU+1)
	}
	allCores := allNodes * counts[cores]
	if memory < 0 {
		memory = int64(allCores) * int64(counts[threads]) * memoryPerCPU
		n.add(aboutMemory, "the line tells no memory; 4Gi for each CPU are taken, %s", resource.NewQuantity(memory, resource.BinarySI))
	}
	m := machine.Machine{Name: line}
	for id := range allNodes {
		// Whole KiB, as the kernel tells them; the first node has the rest.
		share := memory / int64(allNodes) / 1024 * 1024
		if id == 0 {
			share = memory - share*int64(allNodes-1)
		}
		m.Nodes = append(m.Nodes, machine.Node{ID: id, Memory: uint64(share)})
	}
	for thread := range counts[threads] {
		for core := range allCores {
			node := core / counts[cores]
			socket := node / counts[nodes]
			m.CPUs = append(m.CPUs, machine.CPU{ID: thread*allCores + core, Core: core - socket*counts[nodes]*counts[cores], Socket: socket, Node: node, Cache: machine.NoCache})
		}
	}
	n.lacks("the line", m)
	n.lacksHugePages("the line", m)
	return m, n.texts, m.Validate()
}

// unitOf finds the unit that words name, in the singular or the plural.
func unitOf(words string) (int, bool) {
	for i, u := range units {
		for _, name := range append([]string{u.name}, u.also...) {
			for _, word := range []string{name, strings.TrimSuffix(name, "s")} {
				rest, ok := strings.CutPrefix(words, word)
				if rest = strings.TrimSpace(rest); !ok {
					continue
				}
				if rest == "" {
					return i, true
				}
				for _, each := range u.each {
					if rest == each {
						return i, true
					}
				}
			}
		}
	}
	return 0, false
}

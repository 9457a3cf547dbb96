// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shape is a machine: Sockets sockets hold Nodes NUMA nodes between them, each
// node has Cores cores of Threads hardware threads and Memory bytes. The cores of a
// socket share Caches last-level caches, in equal parts. CPU ids count through
// threads, then cores, then nodes, so siblings are neighbours.
type Shape struct {
	Sockets int
	Nodes   int
	Cores   int // per NUMA node
	Threads int // per core
	Memory  int64
	Caches  int       // last-level caches per socket
	Odd     []OddNode // by ascending node
}

// OddNode is a NUMA node unlike the others.
type OddNode struct {
	Node   int
	Cores  int
	Memory int64
}

// DefaultShape has room for the reference pods, beside what is reserved.
var DefaultShape = Shape{Sockets: 2, Nodes: 2, Cores: 6, Threads: 2, Memory: 20 << 30, Caches: 1}

// Limits of what is sensible to emulate; QEMU itself takes 128 NUMA nodes.
const (
	maxCPUs   = 255 // more needs an emulated IOMMU
	maxNodes  = 64
	minMemory = 512 << 20
	// minTotal is what the guest's own Debian, containerd and kubelet need.
	minTotal = 2 << 30
)

// ParseShape reads a machine in words: "2 nodes, 6 cores, 2 threads, 20Gi each".
// Cores are per NUMA node, threads per core, memory per NUMA node. "n sockets" may
// be added; without it every NUMA node is a socket. So may "n caches", per socket;
// without it there is one. An empty string is the default shape.
func ParseShape(text string) (Shape, error) {
	if strings.TrimSpace(text) == "" {
		return DefaultShape, nil
	}
	var s Shape
	counts := map[string]*int{"socket": &s.Sockets, "node": &s.Nodes, "core": &s.Cores, "thread": &s.Threads, "cache": &s.Caches}
	seen := map[string]bool{}
	var odd []string
	fail := func(format string, args ...any) (Shape, error) {
		return Shape{}, fmt.Errorf("machine shape %q: %s (an example: %q)", text, fmt.Sprintf(format, args...), DefaultShape)
	}
	for item := range strings.SplitSeq(text, ",") {
		if strings.Contains(item, ":") {
			odd = append(odd, item)
			continue
		}
		words := strings.Fields(item)
		if len(words) != 2 {
			return fail("%q is not a number and a word", strings.TrimSpace(item))
		}
		unit := strings.TrimSuffix(words[1], "s")
		if seen[unit] {
			return fail("%q is given twice", words[1])
		}
		seen[unit] = true
		if unit == "each" {
			bytes, err := parseSize(words[0])
			if err != nil {
				return fail("%v", err)
			}
			s.Memory = bytes
			continue
		}
		count, known := counts[unit]
		if !known {
			return fail("%q is unknown: want sockets, nodes, cores, threads, caches, or memory as \"20Gi each\"", words[1])
		}
		n, err := strconv.Atoi(words[0])
		if err != nil || n < 1 {
			return fail("%q is not a number of %ss", words[0], unit)
		}
		*count = n
	}
	for _, unit := range []string{"node", "core", "thread", "each"} {
		if !seen[unit] {
			what := unit + "s"
			if unit == "each" {
				what = "memory (\"20Gi each\")"
			}
			return fail("the %s are missing", what)
		}
	}
	if s.Sockets == 0 {
		s.Sockets = s.Nodes
	}
	if s.Caches == 0 {
		s.Caches = 1
	}
	for _, item := range odd {
		if err := s.parseOdd(item); err != nil {
			return fail("%v", err)
		}
	}
	if err := s.Validate(); err != nil {
		return fail("%v", err)
	}
	return s, nil
}

// parseOdd reads "node 1: 0 cores" or "node 1: 6Gi".
func (s *Shape) parseOdd(item string) error {
	name, value, _ := strings.Cut(item, ":")
	words, values := strings.Fields(name), strings.Fields(value)
	bad := fmt.Errorf("%q: want \"node 1: 0 cores\" or \"node 1: 6Gi\"", strings.TrimSpace(item))
	if len(words) != 2 || words[0] != "node" {
		return bad
	}
	node, err := strconv.Atoi(words[1])
	if err != nil || node < 0 || node >= s.Nodes {
		return fmt.Errorf("%q: there is no NUMA node %s of %d", strings.TrimSpace(item), words[1], s.Nodes)
	}
	i, found := slices.BinarySearchFunc(s.Odd, node, func(o OddNode, node int) int { return o.Node - node })
	if !found {
		s.Odd = slices.Insert(s.Odd, i, OddNode{Node: node, Cores: s.Cores, Memory: s.Memory})
	}
	switch {
	case len(values) == 1:
		s.Odd[i].Memory, err = parseSize(values[0])
	case len(values) == 2 && strings.TrimSuffix(values[1], "s") == "core":
		s.Odd[i].Cores, err = strconv.Atoi(values[0])
		if err == nil && s.Odd[i].Cores < 0 {
			err = bad
		}
	default:
		err = bad
	}
	return err
}

// parseSize reads whole mebibytes or gibibytes: 512Mi, 20Gi.
func parseSize(text string) (int64, error) {
	for suffix, unit := range map[string]int64{"Mi": 1 << 20, "Gi": 1 << 30} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			if err != nil || n < 1 {
				break
			}
			return n * unit, nil
		}
	}
	return 0, fmt.Errorf("%q is not an amount of memory: want whole Mi or Gi", text)
}

// Validate says what about a shape cannot be emulated.
func (s Shape) Validate() error {
	switch {
	case s.Sockets < 1 || s.Nodes < 1 || s.Cores < 1 || s.Threads < 1 || s.Caches < 1:
		return fmt.Errorf("every count must be at least 1")
	case s.Nodes%s.Sockets != 0:
		return fmt.Errorf("%d NUMA nodes cannot be spread evenly over %d sockets", s.Nodes, s.Sockets)
	case s.Nodes > maxNodes:
		return fmt.Errorf("%d NUMA nodes are more than %d", s.Nodes, maxNodes)
	case s.Threads > 2:
		return fmt.Errorf("%d threads a core: the emulated processor has 1 or 2", s.Threads)
	case s.CPUs() < 2:
		return fmt.Errorf("one CPU is too few: one is reserved for the system")
	case s.CPUs() > maxCPUs:
		return fmt.Errorf("%d CPUs are more than %d", s.CPUs(), maxCPUs)
	}
	for node := range s.Nodes {
		if m := s.MemoryOf(node); m < minMemory {
			return fmt.Errorf("%s a NUMA node is less than %s", size(m), size(minMemory))
		}
	}
	if s.Total() < minTotal {
		return fmt.Errorf("%s in all is less than the %s that the guest needs", size(s.Total()), size(minTotal))
	}
	for socket := range s.Sockets {
		if n := s.socketCores(socket); n != s.socketCores(0) {
			return fmt.Errorf("sockets 0 and %d have %d and %d cores: they must have the same", socket, s.socketCores(0), n)
		}
	}
	if n := s.socketCores(0); n%s.Caches != 0 {
		return fmt.Errorf("the %d cores of a socket cannot share %d caches evenly", n, s.Caches)
	}
	return nil
}

func (s Shape) odd(node int) OddNode {
	for _, o := range s.Odd {
		if o.Node == node {
			return o
		}
	}
	return OddNode{Node: node, Cores: s.Cores, Memory: s.Memory}
}

// CPUsOf is the number of hardware threads of a NUMA node.
func (s Shape) CPUsOf(node int) int { return s.odd(node).Cores * s.Threads }

// MemoryOf is the memory of a NUMA node, in bytes.
func (s Shape) MemoryOf(node int) int64 { return s.odd(node).Memory }

// socketCores is the number of cores of a socket.
func (s Shape) socketCores(socket int) int {
	n := 0
	for node := range s.Nodes {
		if s.SocketOf(node) == socket {
			n += s.odd(node).Cores
		}
	}
	return n
}

// CPUs is the number of hardware threads.
func (s Shape) CPUs() int {
	n := 0
	for node := range s.Nodes {
		n += s.CPUsOf(node)
	}
	return n
}

// Total is the memory of all NUMA nodes, in bytes.
func (s Shape) Total() int64 {
	var n int64
	for node := range s.Nodes {
		n += s.MemoryOf(node)
	}
	return n
}

// NodeOf is the NUMA node of a CPU.
func (s Shape) NodeOf(cpu int) int {
	for node := range s.Nodes {
		if cpu < s.CPUsOf(node) {
			return node
		}
		cpu -= s.CPUsOf(node)
	}
	return -1
}

// CacheOf returns the last-level cache of a CPU, counted through the machine.
func (s Shape) CacheOf(cpu int) int { return cpu / (s.CPUs() / (s.Sockets * s.Caches)) }

// SocketOf returns the socket that a NUMA node lies on.
func (s Shape) SocketOf(node int) int { return node / (s.Nodes / s.Sockets) }

// String writes a shape so that ParseShape reads it back.
func (s Shape) String() string {
	text := fmt.Sprintf("%d nodes, %d cores, %d threads, %s each", s.Nodes, s.Cores, s.Threads, size(s.Memory))
	if s.Sockets != s.Nodes {
		text = fmt.Sprintf("%d sockets, %s", s.Sockets, text)
	}
	if s.Caches > 1 {
		text += fmt.Sprintf(", %d caches", s.Caches)
	}
	for _, o := range s.Odd {
		if o.Cores != s.Cores {
			text += fmt.Sprintf(", node %d: %d cores", o.Node, o.Cores)
		}
		if o.Memory != s.Memory {
			text += fmt.Sprintf(", node %d: %s", o.Node, size(o.Memory))
		}
	}
	return text
}

func size(bytes int64) string {
	if bytes%(1<<30) == 0 {
		return fmt.Sprintf("%dGi", bytes>>30)
	}
	return fmt.Sprintf("%dMi", bytes>>20)
}

// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
	"sigs.k8s.io/yaml"

	"github.com/podslice/podslice/pkg/mistyped"
	amount "github.com/podslice/podslice/pkg/quantity"
)

// document is the file as it is written.
type document struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Sources     []string          `json:"sources"`
	Memory      resource.Quantity `json:"memory"`
	Nodes       []nodeLine        `json:"nodes"`
	CPUs        []cpuLine         `json:"cpus"`
	Caches      []cacheLine       `json:"caches"`
}

type nodeLine struct {
	ID        int               `json:"id"`
	Memory    resource.Quantity `json:"memory"`
	HugePages map[string]uint64 `json:"hugepages"`
	Distances text              `json:"distances"`
}

type cpuLine struct {
	CPUs     text   `json:"cpus"`
	Threads  *int   `json:"threads"`
	Siblings string `json:"siblings"`
	Cores    text   `json:"cores"`
	Socket   int    `json:"socket"`
	Node     int    `json:"node"`
	Cache    *int   `json:"cache"`
}

type cacheLine struct {
	IDs  text              `json:"ids"`
	Size resource.Quantity `json:"size"`
}

// text is a string that may look like a number: a list of one ID, or the
// distances of a machine with one node.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var number json.Number
	if json.Unmarshal(data, &number) == nil {
		*t = text(number)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

// Parse reads a machine in the format of the package comment. file is the
// file's name for errors, which also name the field and, of a conflict, both
// sides.
func Parse(file string, data []byte) (Machine, error) {
	m, err := parse(data)
	if err != nil {
		return Machine{}, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

func parse(data []byte) (Machine, error) {
	if err := amount.CheckAll(data); err != nil {
		return Machine{}, err
	}
	var d document
	if err := yaml.UnmarshalStrict(data, &d); err != nil {
		if document, bad := yaml.YAMLToJSON(data); bad == nil {
			err = mistyped.ExplainLoose(err, document, &d)
		}
		return Machine{}, err
	}
	if d.Name == "" {
		return Machine{}, errors.New("name: missing")
	}
	m := Machine{Name: d.Name, Description: d.Description, Sources: d.Sources}
	var err error
	if m.Capacity, err = bytes(d.Memory); err != nil {
		return Machine{}, fmt.Errorf("memory: %w", err)
	}
	seen := map[int]int{}
	for i, line := range d.Nodes {
		if other, taken := seen[line.ID]; taken {
			return Machine{}, fmt.Errorf("nodes[%d]: NUMA node %d is in nodes[%d] already", i, line.ID, other)
		}
		seen[line.ID] = i
		node, err := line.node()
		if err != nil {
			return Machine{}, fmt.Errorf("nodes[%d], node %d: %w", i, line.ID, err)
		}
		m.Nodes = append(m.Nodes, node)
	}
	if m.CPUs, err = d.cpus(); err != nil {
		return Machine{}, err
	}
	if m.Caches, err = d.caches(m.CPUs); err != nil {
		return Machine{}, err
	}
	if m.Capacity == m.ofNodes() {
		m.Capacity = 0 // said twice
	}
	return m, m.Validate()
}

func (l nodeLine) node() (Node, error) {
	memory, err := bytes(l.Memory)
	if err != nil {
		return Node{}, fmt.Errorf("memory: %w", err)
	}
	n := Node{ID: l.ID, Memory: memory}
	for _, name := range slices.Sorted(maps.Keys(l.HugePages)) {
		page, err := amount.Parse(name)
		if err != nil {
			return Node{}, fmt.Errorf("hugepages: page size %q: %w", name, err)
		}
		size, err := bytes(page)
		if err != nil {
			return Node{}, fmt.Errorf("hugepages: page size: %w", err)
		}
		n.HugePages = append(n.HugePages, HugePages{PageSize: size, Pages: l.HugePages[name]})
	}
	slices.SortFunc(n.HugePages, func(a, b HugePages) int { return cmp.Compare(a.PageSize, b.PageSize) })
	if n.Distances, err = parseRow(l.Distances); err != nil {
		return Node{}, fmt.Errorf("distances: %w", err)
	}
	return n, nil
}

func bytes(q resource.Quantity) (uint64, error) {
	// AsInt64 also says no to fractions.
	size, ok := q.AsInt64()
	if !ok || size < 0 || size > maxBytes {
		return 0, fmt.Errorf("%s is not a number of bytes from 0 to 2^59", q.String())
	}
	return uint64(size), nil
}

// parseRow reads "10 20 80x3".
func parseRow(line text) ([]uint64, error) {
	var row []uint64
	for _, field := range strings.Fields(string(line)) {
		number, times, repeated := strings.Cut(field, "x")
		distance, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%q is not a distance", field)
		}
		count := 1
		if repeated {
			if count, err = strconv.Atoi(times); err != nil || count < 1 || count > MaxNodes {
				return nil, fmt.Errorf("%q: %q is not a count from 1 to %d", field, times, MaxNodes)
			}
		}
		row = append(row, slices.Repeat([]uint64{distance}, count)...)
		if len(row) > MaxNodes {
			return nil, fmt.Errorf("more than %d numbers", MaxNodes)
		}
	}
	return row, nil
}

// cpus lists the CPUs of all groups by ascending ID.
func (d document) cpus() ([]CPU, error) {
	var all []CPU
	claimed := map[int]int{} // CPU to the line that has it
	owner := map[CoreID]int{}
	next := map[int]int{} // socket to its next core ID
	for i, line := range d.CPUs {
		cores, err := line.coresOf(next[line.Socket])
		if err != nil {
			return nil, fmt.Errorf("cpus[%d]: %w", i, err)
		}
		for _, core := range cores {
			c := core[0]
			if other, taken := owner[c.CoreID()]; taken {
				return nil, fmt.Errorf("cpus[%d]: %s on NUMA node %d, with CPU %d, is in cpus[%d] on NUMA node %d already",
					i, c.CoreID(), c.Node, c.ID, other, d.CPUs[other].Node)
			}
			owner[c.CoreID()] = i
			next[c.Socket] = max(next[c.Socket], c.Core+1)
			for _, c := range core {
				if other, taken := claimed[c.ID]; taken {
					return nil, fmt.Errorf("cpus[%d]: CPU %d is in %q and in %q of cpus[%d]: it cannot be on two cores",
						i, c.ID, line.CPUs, d.CPUs[other].CPUs, other)
				}
				claimed[c.ID] = i
			}
			all = append(all, core...)
		}
	}
	slices.SortFunc(all, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// coresOf is the group's cores, numbered on from next unless the line says how.
func (l cpuLine) coresOf(next int) ([][]CPU, error) {
	cpus, err := parseList(l.CPUs, MaxCPU)
	if err != nil {
		return nil, fmt.Errorf("cpus: %w", err)
	}
	threads := 1
	if l.Threads != nil {
		threads = *l.Threads
	}
	if threads < 1 || len(cpus)%threads != 0 {
		return nil, fmt.Errorf("threads: the %d CPUs %q cannot be divided into cores of %d", len(cpus), l.CPUs, threads)
	}
	count := len(cpus) / threads
	ids := make([]int, count)
	for i := range ids {
		ids[i] = next + i
	}
	if l.Cores != "" {
		if ids, err = parseList(l.Cores, maxID); err != nil {
			return nil, fmt.Errorf("cores: %w", err)
		}
		if len(ids) != count {
			return nil, fmt.Errorf("cores: %q are %d cores, but the CPUs %q are %d cores of %d", l.Cores, len(ids), l.CPUs, count, threads)
		}
	}
	cache := NoCache
	if l.Cache != nil {
		if cache = *l.Cache; cache < 0 {
			return nil, fmt.Errorf("cache: %d is not an ID; leave it out if the machine does not tell", cache)
		}
	}
	cores := make([][]CPU, count)
	for i, id := range cpus {
		var core int
		switch l.Siblings {
		case "", "adjacent":
			core = i / threads
		case "apart":
			core = i % count
		default:
			return nil, fmt.Errorf("siblings: %q is neither adjacent nor apart", l.Siblings)
		}
		cores[core] = append(cores[core], CPU{ID: id, Core: ids[core], Socket: l.Socket, Node: l.Node, Cache: cache})
	}
	return cores, nil
}

// caches is the caches that the CPUs use, with the sizes of the document.
func (d document) caches(cpus []CPU) ([]Cache, error) {
	sizes, line := map[int]uint64{}, map[int]int{}
	for i, l := range d.Caches {
		ids, err := parseList(l.IDs, maxID)
		if err != nil {
			return nil, fmt.Errorf("caches[%d]: ids: %w", i, err)
		}
		size, err := bytes(l.Size)
		if err != nil {
			return nil, fmt.Errorf("caches[%d]: size: %w", i, err)
		}
		for _, id := range ids {
			if other, taken := line[id]; taken {
				return nil, fmt.Errorf("caches[%d]: cache %d is in %q and in %q of caches[%d]", i, id, l.IDs, d.Caches[other].IDs, other)
			}
			sizes[id], line[id] = size, i
		}
	}
	caches := cachesOf(cpus, sizes)
	for _, c := range caches {
		delete(sizes, c.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(sizes)) {
		return nil, fmt.Errorf("caches[%d]: no CPU uses cache %d", line[id], id)
	}
	return caches, nil
}

// cachesOf lists the caches that the CPUs use, by ascending ID.
func cachesOf(cpus []CPU, sizes map[int]uint64) []Cache {
	var caches []Cache
	seen := map[int]bool{NoCache: true}
	for _, c := range cpus {
		if !seen[c.Cache] {
			seen[c.Cache] = true
			caches = append(caches, Cache{ID: c.Cache, Size: sizes[c.Cache]})
		}
	}
	slices.SortFunc(caches, func(a, b Cache) int { return cmp.Compare(a.ID, b.ID) })
	return caches
}

// maxListed bounds how many IDs a list may have, since they are written out in
// memory.
const maxListed = 1 << 20

// parseList reads a list like "0-3,8" of at least one number.
func parseList(list text, highest int) ([]int, error) {
	// cpuset.Parse writes out every range, however long, so the numbers are
	// looked at first.
	total := 0
	for _, part := range strings.Split(string(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err1 := strconv.Atoi(first)
		high, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || low > high {
			return nil, fmt.Errorf("%q is not a list of numbers and ranges", list)
		}
		if low < 0 || high > highest {
			return nil, fmt.Errorf("%s is outside the supported range 0-%d", part, highest)
		}
		total += high - low + 1
		if total > maxListed {
			return nil, fmt.Errorf("%q: more than %d numbers", list, maxListed)
		}
	}
	set, err := cpuset.Parse(string(list))
	if err != nil {
		return nil, err
	}
	if set.Size() != total {
		return nil, fmt.Errorf("%q: a number stands there twice", list)
	}
	return set.List(), nil
}

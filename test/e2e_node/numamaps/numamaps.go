// SPDX-License-Identifier: Apache-2.0

// Package numamaps tells on which NUMA nodes the pages of a process's memory
// lie, as the kernel counts them in /proc/PID/numa_maps, and holds what
// pagewitness, the program that looks, writes down.
package numamaps

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Mapping is one line of numa_maps.
type Mapping struct {
	Start    uint64      `json:"-"`
	Policy   string      `json:"policy"`   // in the kernel's words: interleave:0-1
	PageSize int64       `json:"pageSize"` // bytes
	Pages    map[int]int `json:"pages"`    // number of pages by NUMA node
}

// Nodes are the NUMA nodes that at least one page lies on, in order.
func (m Mapping) Nodes() []int { return slices.Sorted(maps.Keys(m.Pages)) }

// Bytes is how much memory the pages are.
func (m Mapping) Bytes() int64 {
	var sum int64
	for _, pages := range m.Pages {
		sum += int64(pages) * m.PageSize
	}
	return sum
}

func (m Mapping) String() string {
	var parts []string
	for _, node := range m.Nodes() {
		parts = append(parts, fmt.Sprintf("%d on node %d", m.Pages[node], node))
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	return fmt.Sprintf("pages of %dKi: %s", m.PageSize>>10, strings.Join(parts, ", "))
}

// Find returns the mapping that starts at an address.
func Find(text string, start uint64) (Mapping, error) {
	for line := range strings.Lines(text) {
		m, err := parse(line)
		if err != nil {
			return Mapping{}, err
		}
		if m.Start == start {
			return m, nil
		}
	}
	return Mapping{}, fmt.Errorf("numa_maps has no mapping that starts at %x", start)
}

// parse reads a line: the start, the policy, and then words, of which N1=16384
// and kernelpagesize_kB=4 are what counts. A mapping without pages has neither.
// Pages are counted in the mapping's page size for hugetlb; transparent huge
// pages are counted as the small pages that they consist of.
func parse(line string) (Mapping, error) {
	f := strings.Fields(line)
	if len(f) < 2 {
		return Mapping{}, fmt.Errorf("numa_maps line %q: want an address and a policy", line)
	}
	start, err := strconv.ParseUint(f[0], 16, 64)
	if err != nil {
		return Mapping{}, fmt.Errorf("numa_maps line %q: %w", line, err)
	}
	m := Mapping{Start: start, Policy: f[1], Pages: map[int]int{}}
	for _, word := range f[2:] {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		if key == "kernelpagesize_kB" {
			kib, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return Mapping{}, fmt.Errorf("numa_maps line %q: %w", line, err)
			}
			m.PageSize = kib << 10
			continue
		}
		digits, ok := strings.CutPrefix(key, "N")
		if !ok {
			continue
		}
		node, err := strconv.Atoi(digits)
		if err != nil {
			continue // another word with an N
		}
		if m.Pages[node], err = strconv.Atoi(value); err != nil {
			return Mapping{}, fmt.Errorf("numa_maps line %q: %w", line, err)
		}
	}
	if len(m.Pages) > 0 && m.PageSize == 0 {
		return Mapping{}, fmt.Errorf("numa_maps line %q: pages of no size", line)
	}
	return m, nil
}

// Result is what pagewitness found: its mappings, or why there are none.
type Result struct {
	Error string   `json:"error,omitempty"`
	Small *Mapping `json:"small,omitempty"` // pages of the ordinary size
	Huge  *Mapping `json:"huge,omitempty"`
}

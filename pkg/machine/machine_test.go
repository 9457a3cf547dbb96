// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"
)

// hybrid has cores of two sizes, caches of two sizes, a node without CPUs and
// gaps between IDs.
const hybrid = `
name: hybrid
description: everything at once
sources: [none]
nodes:
- {id: 1, memory: 4Gi, hugepages: {2Mi: 512, 1Gi: 1}, distances: 10 20x2}
- {id: 5, memory: 0, distances: 20 10 20}
- {id: 12, memory: 1Gi, distances: 20 20 10}
cpus:
- {cpus: 0-3, threads: 2, node: 1, cache: 0, cores: "0,8"}
- {cpus: "10-11,20-21", threads: 2, siblings: apart, node: 1, cache: 4}
- {cpus: 30, socket: 3, node: 5}
caches:
- {ids: 0, size: 4Mi}
`

func mustParse(t *testing.T, text string) Machine {
	t.Helper()
	m, err := Parse("test.yaml", []byte(text))
	require.NoError(t, err)
	return m
}

func TestParse(t *testing.T) {
	const gi = 1 << 30
	m := mustParse(t, hybrid)
	require.Equal(t, Machine{
		Name: "hybrid", Description: "everything at once", Sources: []string{"none"},
		CPUs: []CPU{
			{ID: 0, Core: 0, Node: 1, Cache: 0}, {ID: 1, Core: 0, Node: 1, Cache: 0},
			{ID: 2, Core: 8, Node: 1, Cache: 0}, {ID: 3, Core: 8, Node: 1, Cache: 0},
			{ID: 10, Core: 9, Node: 1, Cache: 4}, {ID: 11, Core: 10, Node: 1, Cache: 4},
			{ID: 20, Core: 9, Node: 1, Cache: 4}, {ID: 21, Core: 10, Node: 1, Cache: 4},
			{ID: 30, Core: 0, Socket: 3, Node: 5, Cache: NoCache},
		},
		Nodes: []Node{
			{ID: 1, Memory: 4 * gi, HugePages: []HugePages{{2 << 20, 512}, {gi, 1}}, Distances: []uint64{10, 20, 20}},
			{ID: 5, Distances: []uint64{20, 10, 20}},
			{ID: 12, Memory: gi, Distances: []uint64{20, 20, 10}},
		},
		Caches: []Cache{{ID: 0, Size: 4 << 20}, {ID: 4}},
	}, m)
}

// TestParseErrors replaces one line of the machine and looks for what the error
// says: where, and what contradicts what.
func TestParseErrors(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown field":      {"sources:", "source:", `unknown field "source"`},
		"no name":            {"name: hybrid", "", "name: missing"},
		"not YAML":           {"name: hybrid", "name: [", "test.yaml: "},
		"no CPUs":            {hybrid[strings.Index(hybrid, "cpus:\n"):], "", "the machine has no CPUs"},
		"CPU in two groups":  {"cpus: 30", `cpus: "3,30"`, `cpus[2]: CPU 3 is in "3,30" and in "0-3" of cpus[0]: it cannot be on two cores`},
		"CPU twice in one":   {"cpus: 30", `cpus: "30,30"`, `cpus[2]: cpus: "30,30": a number stands there twice`},
		"core on two nodes":  {"socket: 3, node: 5", "cores: 8, node: 5", "cpus[2]: core 8 of socket 0 on NUMA node 5, with CPU 30, is in cpus[0] on NUMA node 1 already"},
		"CPU out of range":   {"cpus: 30", "cpus: 65536", "cpus[2]: cpus: 65536 is outside the supported range 0-65535"},
		"endless range":      {"cpus: 30", "cpus: 0-4000000000", "cpus[2]: cpus: 0-4000000000 is outside the supported range 0-65535"},
		"not a list":         {"cpus: 30", "cpus: a-b", `cpus[2]: cpus: "a-b" is not a list of numbers and ranges`},
		"no list":            {"cpus: 30", `cpus: ""`, `cpus[2]: cpus: "" is not a list of numbers and ranges`},
		"odd threads":        {"threads: 2, node", "threads: 3, node", `cpus[0]: threads: the 4 CPUs "0-3" cannot be divided into cores of 3`},
		"no threads":         {"threads: 2, node", "threads: 0, node", "cores of 0"},
		"too few cores":      {`"0,8"`, `"0"`, `cpus[0]: cores: "0" are 1 cores, but the CPUs "0-3" are 2 cores of 2`},
		"unknown siblings":   {"siblings: apart", "siblings: close", `cpus[1]: siblings: "close" is neither adjacent nor apart`},
		"negative cache":     {"cache: 4", "cache: -1", "cpus[1]: cache: -1 is not an ID"},
		"cache nobody uses":  {"ids: 0", "ids: 0-1", "caches[0]: no CPU uses cache 1"},
		"cache twice":        {"caches:", "caches:\n- {ids: 0-4, size: 1Mi}", `caches[1]: cache 0 is in "0" and in "0-4" of caches[0]`},
		"unknown node":       {"node: 5}", "node: 6}", "CPU 30 is on NUMA node 6, the machine has the nodes [1 5 12]"},
		"negative socket":    {"socket: 3", "socket: -1", "CPU 30 is on core 0 of socket -1"},
		"node twice":         {"id: 5", "id: 1", "nodes[1]: NUMA node 1 is in nodes[0] already"},
		"node out of range":  {"id: 12", "id: 2147483648", "NUMA node 2147483648 is outside the supported range 0-2147483647"},
		"row too short":      {"20 20 10}", "20 20}", "NUMA node 12 has 2 distances, the machine has 3 nodes"},
		"row too long":       {"20 20 10}", "20x1025}", `nodes[2], node 12: distances: "20x1025": "1025" is not a count from 1 to 1024`},
		"row missing":        {"distances: 20 20 10", `distances: ""`, "of the NUMA nodes 1 and 12 only one has distances"},
		"not a distance":     {"20 20 10}", "20 far}", `nodes[2], node 12: distances: "far" is not a distance`},
		"bad memory":         {"memory: 1Gi", "memory: much", "quantities must match"},
		"negative memory":    {"memory: 1Gi", "memory: -1Gi", "nodes[2], node 12: memory: -1Gi is not a number of bytes"},
		"fraction of a byte": {"memory: 1Gi", "memory: 100m", "nodes[2], node 12: memory: 100m is not a number of bytes"},
		"bad page size":      {"1Gi: 1", "huge: 1", `nodes[0], node 1: hugepages: page size "huge"`},
		"odd page size":      {"1Gi: 1", "1000: 1", "hugepages of 1000 bytes, which is not a positive multiple of 1024"},
		"page size twice":    {"1Gi: 1", "2048Ki: 1", "NUMA node 1 has hugepages of 2097152 bytes after those of 2097152 bytes"},
		"too many pages":     {"1Gi: 1", "1Gi: 4", "NUMA node 1 has 4 hugepages of 1073741824 bytes, but of its 4294967296 bytes of memory only 3221225472 are left"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, hybrid, test.old)
			_, err := Parse("test.yaml", []byte(strings.Replace(hybrid, test.old, test.new, 1)))
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "test.yaml: ")
		})
	}
}

func TestWithout(t *testing.T) {
	m := mustParse(t, hybrid)
	before := mustParse(t, hybrid)

	// One sibling, and the only CPU of a core, of a socket and of a node.
	less, err := m.Without(cpuset.New(0, 30))
	require.NoError(t, err)
	require.NoError(t, less.Validate())
	require.Equal(t, "1-3,10-11,20-21", less.Online().String())
	require.Equal(t, m.Nodes, less.Nodes)
	require.Equal(t, m.Caches, less.Caches)

	// A whole cache.
	less, err = less.Without(cpuset.New(10, 11, 20, 21))
	require.NoError(t, err)
	require.NoError(t, less.Validate())
	require.Equal(t, []Cache{{ID: 0, Size: 4 << 20}}, less.Caches)
	require.Equal(t, before, m, "the machine itself stays as it was")

	same, err := m.Without(cpuset.New())
	require.NoError(t, err)
	require.Equal(t, m, same)

	_, err = m.Without(cpuset.New(0, 99))
	require.EqualError(t, err, `machine hybrid: CPUs "99" cannot go offline, online are "0-3,10-11,20-21,30"`)
	_, err = m.Without(m.Online())
	require.ErrorContains(t, err, "all of its CPUs")
}

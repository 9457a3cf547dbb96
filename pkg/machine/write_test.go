// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireWritten checks that what is written down is read as the same machine.
func requireWritten(t *testing.T, m Machine) {
	t.Helper()
	for _, text := range [][]byte{m.YAML(), m.JSON()} {
		back, err := Parse("written", text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, m, back, "%s", text)
	}
	require.True(t, json.Valid(m.JSON()), "%s", m.JSON())
}

func TestWrite(t *testing.T) {
	m := mustParse(t, hybrid)
	requireWritten(t, m)
	require.Equal(t, `name: "hybrid"
description: "everything at once"
sources:
- "none"
nodes:
- {id: 1, memory: 4Gi, hugepages: {2Mi: 512, 1Gi: 1}, distances: 10 20 20}
- {id: 5, memory: 0, distances: 20 10 20}
- {id: 12, memory: 1Gi, distances: 20 20 10}
cpus:
- {cpus: 0-3, threads: 2, siblings: adjacent, cores: "0,8", socket: 0, node: 1, cache: 0}
- {cpus: "10-11,20-21", threads: 2, siblings: apart, socket: 0, node: 1, cache: 4}
- {cpus: 30, socket: 3, node: 5}
caches:
- {ids: 0, size: 4Mi}
`, string(m.YAML()))
	require.Equal(t, `{
  "name": "hybrid",
  "description": "everything at once",
  "sources": [
    "none"
  ],
  "nodes": [
    {"id": 1, "memory": "4Gi", "hugepages": {"2Mi": 512, "1Gi": 1}, "distances": "10 20 20"},
    {"id": 5, "memory": 0, "distances": "20 10 20"},
    {"id": 12, "memory": "1Gi", "distances": "20 20 10"}
  ],
  "cpus": [
    {"cpus": "0-3", "threads": 2, "siblings": "adjacent", "cores": "0,8", "socket": 0, "node": 1, "cache": 0},
    {"cpus": "10-11,20-21", "threads": 2, "siblings": "apart", "socket": 0, "node": 1, "cache": 4},
    {"cpus": 30, "socket": 3, "node": 5}
  ],
  "caches": [
    {"ids": 0, "size": "4Mi"}
  ]
}
`, string(m.JSON()))
}

// TestWriteOdd has what a line can hardly say.
func TestWriteOdd(t *testing.T) {
	for name, text := range map[string]string{
		"crossed cores": `
cpus:
- {cpus: "0,7", threads: 2, cores: 5}
- {cpus: "1,6", threads: 2, cores: 3}
- {cpus: "2,5", threads: 2, cores: 4}`,
		"distances that look like a hexadecimal number": `
nodes: [{id: 0, distances: "0x4"}, {id: 1, distances: "0x4"}, {id: 2, distances: "0x4"}, {id: 3, distances: "0x4"}]
cpus: [{cpus: 0}]`,
		"large numbers": `
memory: 576460752303423487
nodes: [{id: 63, memory: 1, distances: 65535}]
cpus: [{cpus: 65535, node: 63, socket: 2147483647, cores: 2147483647, cache: 2147483647}]
caches: [{ids: 2147483647, size: 576460752303423485}]`,
		"words": "description: \"a: \\\"b\\\" # \\u2028 \\n- c\"\nsources: [\"\", \"{\"]\ncpus: [{cpus: 0}]",
		"none":  "nodes: [{id: 0}]\ncpus: [{cpus: 0}]",
	} {
		t.Run(name, func(t *testing.T) {
			if name == "crossed cores" || name == "words" {
				text += "\nnodes: [{id: 0}]"
			}
			requireWritten(t, mustParse(t, "name: odd\n"+text))
		})
	}
}

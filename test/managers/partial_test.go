// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	cpustate "github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/state"
	memorystate "github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/test/simnode"
	"github.com/podslice/podslice/test/simnode/script"
)

// partial is the commands of scripts that leave behind what a kubelet does that stops
// between two writes: lose NAME and misplace NAME.
func partial(t *testing.T, r *script.Runner) map[string]func(script.Command) (string, error) {
	run := func(f func(*testing.T, *simnode.Node, script.Command)) func(script.Command) (string, error) {
		return func(c script.Command) (string, error) {
			f(t, r.Node, c)
			return "", nil
		}
	}
	return map[string]func(script.Command) (string, error){"lose": run(lose), "misplace": run(misplace)}
}

// lose takes parts of a pod's record out of the state files, as a kubelet leaves
// them that stops between two writes: cpu=(PART,...) and memory=(PART,...), where
// PART is the name of a container, "pod" or "all".
func lose(t *testing.T, n *simnode.Node, c script.Command) {
	uid := string(n.Pod(c.Args[0].Key).UID)
	for _, arg := range c.Args[1:] {
		gone := func(part string) bool { return slices.Contains(arg.Vals, part) || slices.Contains(arg.Vals, "all") }
		switch arg.Key {
		case "cpu":
			editCPUs(t, n, func(data *cpustate.CPUManagerCheckpointData) { loseParts(data.Entries, data.PodEntries, uid, gone) })
		case "memory":
			editMemory(t, n, func(data *memorystate.MemoryManagerCheckpointData) {
				loseParts(data.Entries, data.PodEntries, uid, gone)
			})
		default:
			t.Fatalf("cannot lose %q", arg.Key)
		}
	}
}

func loseParts[E, P any, M ~map[string]map[string]E, N ~map[string]P](entries M, pods N, uid string, gone func(string) bool) {
	for name := range entries[uid] {
		if gone(name) {
			delete(entries[uid], name)
		}
	}
	if len(entries[uid]) == 0 {
		delete(entries, uid)
	}
	if gone("pod") {
		delete(pods, uid)
	}
}

// misplace writes other CPUs or NUMA nodes for a pod as a whole into the state
// files, as a kubelet leaves them that places a running pod a second time and
// stops on the way: cpu=(CPUs), memory=(nodes); or, with default=(CPUs), another
// shared pool, as one does that stops before it has written that.
func misplace(t *testing.T, n *simnode.Node, c script.Command) {
	uid := string(n.Pod(c.Args[0].Key).UID)
	for _, arg := range c.Args[1:] {
		set, err := cpuset.Parse(strings.Join(arg.Vals, ","))
		require.NoError(t, err)
		switch arg.Key {
		case "cpu":
			editCPUs(t, n, func(data *cpustate.CPUManagerCheckpointData) {
				data.PodEntries[uid] = cpustate.PodEntry{CPUSet: set}
			})
		case "default":
			editCPUs(t, n, func(data *cpustate.CPUManagerCheckpointData) { data.DefaultCPUSet = set.String() })
		case "memory":
			editMemory(t, n, func(data *memorystate.MemoryManagerCheckpointData) {
				blocks := data.PodEntries[uid].MemoryBlocks
				for i := range blocks {
					blocks[i].NUMAAffinity = set.List()
				}
			})
		default:
			t.Fatalf("cannot misplace %q", arg.Key)
		}
	}
}

func editCPUs(t *testing.T, n *simnode.Node, edit func(*cpustate.CPUManagerCheckpointData)) {
	editFile(t, n, "cpu_manager_state", func(text []byte) ([]byte, error) {
		var old, changed cpustate.CPUManagerCheckpoint
		require.NoError(t, old.UnmarshalCheckpoint(text))
		changed.CheckpointData = old.CheckpointData
		edit(&changed.CheckpointData)
		return changed.MarshalCheckpoint()
	})
}

func editMemory(t *testing.T, n *simnode.Node, edit func(*memorystate.MemoryManagerCheckpointData)) {
	editFile(t, n, "memory_manager_state", func(text []byte) ([]byte, error) {
		var old, changed memorystate.MemoryManagerCheckpoint
		require.NoError(t, old.UnmarshalCheckpoint(text))
		changed.CheckpointData = old.CheckpointData
		edit(&changed.CheckpointData)
		return changed.MarshalCheckpoint()
	})
}

func editFile(t *testing.T, n *simnode.Node, name string, edit func([]byte) ([]byte, error)) {
	path := filepath.Join(n.Dir, name)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text, err = edit(text)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

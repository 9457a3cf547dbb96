// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/test/simnode"
)

const cpuFile, memoryFile = "cpu_manager_state", "memory_manager_state"

// TestFiles has podslice write its files, which the programs of other releases
// are started on. What they did is in testdata/RELEASE/check.txt, and holds for
// what podslice writes now as long as this test passes.
func TestFiles(t *testing.T) {
	for _, s := range settings {
		all := map[string]files{}
		for _, c := range podCases {
			n := newNode(t, s)
			require.NoError(t, n.Start())
			var written files
			for _, pod := range c.parse(t) {
				n.Add(pod)
				result := n.Admit(pod)
				require.True(t, result.Admit, "%s, %s: %s", s.Name, c.name, result.Message)
				begin(t, n, pod, c.until)
			}
			for _, pod := range n.Active() {
				written.Pods = append(written.Pods, describe(n, pod)...)
			}
			n.Stop()
			written.CPU, written.Memory = read(t, n, cpuFile), read(t, n, memoryFile)
			all[c.name] = written
		}
		goldenJSON(t, filepath.Join("podslice", s.Name+".json"), all)
	}
}

func read(t *testing.T, n *simnode.Node, name string) string {
	text, err := os.ReadFile(filepath.Join(n.Dir, name))
	require.NoError(t, err)
	return string(text)
}

// begin starts the pod's containers before the one called until.
func begin(t *testing.T, n *simnode.Node, pod *v1.Pod, until string) {
	for c := range simnode.Containers(pod) {
		if c.Name == until {
			return
		}
		require.NoError(t, n.StartContainer(pod, c))
	}
}

// describe is where the pod's containers are, as the programs of other releases
// write it.
func describe(n *simnode.Node, pod *v1.Pod) (lines []string) {
	for c := range simnode.Containers(pod) {
		nodes := n.Memory.GetMemoryNUMANodes(n.Logger, pod, c).UnsortedList()
		slices.Sort(nodes)
		lines = append(lines, fmt.Sprintf("%s/%s: cpus %s mems %v", pod.Name, c.Name, n.CPU.GetCPUAffinity(string(pod.UID), c.Name), nodes))
	}
	return lines
}

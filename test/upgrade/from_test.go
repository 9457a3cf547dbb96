// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/test/simnode"
)

// TestFromOtherReleases starts podslice on what the kubelets of other releases
// have written, with the same pods running, under each setting. What is recorded
// in the files stays as it is, nothing is lost and nothing counted twice, and the
// next start changes nothing more. What pods are given that had nothing on record
// is in testdata/start.txt.
func TestFromOtherReleases(t *testing.T) {
	var out strings.Builder
	for _, release := range releases {
		for _, before := range settings {
			if _, err := os.Stat(filepath.Join("testdata", release, before.Name+".json")); os.IsNotExist(err) && before.Gate {
				continue // a release without the gate
			}
			all := readFiles(t, release, before.Name)
			for _, today := range settings {
				stay := 0
				for _, c := range podCases {
					t.Run(fmt.Sprintf("%s/%s/%s/%s", release, before.Name, today.Name, c.name), func(t *testing.T) {
						changes := startOn(t, c, all[c.name], today)
						if len(changes) == 0 {
							stay++
							return
						}
						fmt.Fprintf(&out, "%s, written by %s with %s, read with %s:\n  %s\n", c.name, release, before.Name, today.Name, strings.Join(changes, "\n  "))
					})
				}
				fmt.Fprintf(&out, "written by %s with %s, read with %s: in %d cases all stay\n", release, before.Name, today.Name, stay)
			}
		}
	}
	golden(t, "start.txt", []byte(out.String()))
}

// startOn says where containers are that are not where they were.
func startOn(t *testing.T, c podCase, left files, today setting) (changes []string) {
	n := newNode(t, today)
	require.NoError(t, os.WriteFile(filepath.Join(n.Dir, cpuFile), []byte(left.CPU), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(n.Dir, memoryFile), []byte(left.Memory), 0o600))
	for _, pod := range c.parse(t) {
		if slices.ContainsFunc(left.Pods, func(line string) bool { return strings.HasPrefix(line, pod.Name+" refused") }) {
			continue
		}
		n.Add(pod)
		for container := range simnode.Containers(pod) {
			if container.Name == c.until {
				break
			}
			n.Found(pod, container)
		}
	}
	require.NoError(t, n.Start())
	file := recordsOf(t, left)
	require.Equal(t, file.reserved(), reservedNow(n), "memory is lost or counted twice")
	for _, pod := range n.Active() {
		result := n.Admit(pod)
		require.True(t, result.Admit, "%s", result.Message)
		if whole, ok := file.PodCPUs[string(pod.UID)]; ok {
			require.Equal(t, whole.CPUSet, n.CPU.GetPodCPUs(string(pod.UID)).String(), "the CPUs of pod %s", pod.Name)
		}
	}
	now := where(n)
	for i, line := range now {
		pod, container, _ := strings.Cut(strings.Split(line, ":")[0], "/")
		uid := "uid-" + pod
		if cpus, ok := file.CPUs[uid][container]; ok {
			require.Contains(t, line, ": cpus "+cpus+" ", "the CPU manager's file has these CPUs")
		}
		if blocks := file.Memory[uid][container]; len(blocks) > 0 {
			require.Contains(t, line, fmt.Sprintf(" mems %v", blocks[0].NUMAAffinity), "the memory manager's file has these NUMA nodes")
		}
		if line != left.Pods[i] {
			changes = append(changes, line)
		}
	}
	// What the release has left of pods that it refused is taken back in the
	// background.
	require.Eventually(t, func() bool { return n.CheckInvariants() == nil }, 10*time.Second, time.Millisecond, "%v", n.CheckInvariants())

	written := n.Files()
	require.NoError(t, n.Start())
	for _, pod := range n.Active() {
		require.True(t, n.Admit(pod).Admit)
	}
	require.Equal(t, now, where(n), "the next start moves something")
	require.Equal(t, written, n.Files())
	return changes
}

func where(n *simnode.Node) (lines []string) {
	for _, pod := range n.Active() {
		lines = append(lines, describe(n, pod)...)
	}
	return lines
}

// records is what the files of a release say, read without any of our code.
type records struct {
	CPUs    map[string]map[string]string
	PodCPUs map[string]struct {
		CPUSet string `json:"cpuSet"`
	}
	Memory map[string]map[string][]struct {
		NUMAAffinity []int  `json:"numaAffinity"`
		Type         string `json:"type"`
		Size         uint64 `json:"size"`
	}
	Machine map[string]struct {
		MemoryMap map[string]struct{ Reserved uint64 }
	}
}

// recordsOf reads the files in whichever format they are: the newest has the
// whole content as a text.
func recordsOf(t *testing.T, left files) (r records) {
	for _, file := range []struct {
		text string
		into any
	}{
		{left.CPU, &struct{ Entries, PodEntries any }{&r.CPUs, &r.PodCPUs}},
		{left.Memory, &struct{ Entries, MachineState any }{&r.Memory, &r.Machine}},
	} {
		var whole struct{ Data string }
		require.NoError(t, json.Unmarshal([]byte(file.text), &whole))
		if whole.Data != "" {
			file.text = whole.Data
		}
		require.NoError(t, json.Unmarshal([]byte(file.text), file.into))
	}
	return r
}

// reserved is the memory that pods have, by resource.
func (r records) reserved() map[string]uint64 {
	sum := map[string]uint64{}
	for _, node := range r.Machine {
		for resource, table := range node.MemoryMap {
			sum[resource] += table.Reserved
		}
	}
	return sum
}

func reservedNow(n *simnode.Node) map[string]uint64 {
	sum := map[string]uint64{}
	for _, node := range n.Memory.State().GetMachineState() {
		for resource, table := range node.MemoryMap {
			sum[string(resource)] += table.Reserved
		}
	}
	return sum
}

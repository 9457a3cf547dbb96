// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/simnode"
	"github.com/podslice/podslice/test/simnode/script"
)

// TestPartialRecords loses random parts of what is recorded of random pods, be
// they running or not, and starts kubelets of random settings. Then nothing is
// held twice, what was left in the files has not moved, no pod has more than
// before, and the kubelets after that change nothing.
func TestPartialRecords(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			n := simnode.New(t)
			n.Info = simnode.Shape{Nodes: 1 + r.IntN(3), Cores: 4, Threads: 2, Memory: resource.MustParse("16Gi")}.MachineInfo()
			n.ReservedCPUs = cpuset.New(0)
			n.TopologyPolicy = pick(r, "none", "best-effort", "restricted")
			n.Scope = pick(r, "pod", "container")
			require.NoError(t, n.Start())
			for i := range 4 {
				pod, err := simnode.ParsePod(randomPod(r, fmt.Sprint("pod", i)))
				require.NoError(t, err)
				n.Add(pod)
				if !n.Admit(pod).Admit {
					n.Remove(pod.Name)
					continue
				}
				if r.IntN(3) > 0 {
					require.NoError(t, n.StartContainers(pod))
				}
			}
			cpus, memory := heldCPUs(n), heldMemory(n)

			left := map[string]bool{}
			for _, pod := range n.Active() {
				lost := script.Command{Args: []datadriven.CmdArg{
					{Key: pod.Name},
					{Key: "cpu", Vals: randomParts(r, pod, !n.CPU.GetPodCPUs(string(pod.UID)).IsEmpty())},
					{Key: "memory", Vals: randomParts(r, pod, len(n.Memory.GetPodMemory(string(pod.UID))) > 0)},
				}}
				lose(t, n, lost)
				for c := range simnode.Containers(pod) {
					parts := lost.Args[1].Vals
					// One that one manager has lost and that has not started is placed anew.
					left[pod.Name+"/"+c.Name] = len(n.ContainersOf(pod)) > 0 && !slices.Contains(parts, c.Name) && !slices.Contains(parts, "all")
				}
			}
			before, whole := own(n), n.TopologyPolicy != "none" && n.Scope == "pod"
			n.TopologyPolicy = pick(r, "none", "best-effort", "restricted")
			n.Scope = pick(r, "pod", "container")
			// Pods of which nothing is left may be allocated as a whole now.
			more := !whole && n.TopologyPolicy != "none" && n.Scope == "pod"
			require.NoError(t, n.Start())
			for _, pod := range n.Active() {
				result := n.Admit(pod)
				running := len(n.ContainersOf(pod)) > 0
				require.True(t, result.Admit || !running, "%s is killed: %s", pod.Name, result.Message)
				if !result.Admit {
					n.Vanish(pod.Name)
				}
			}
			require.NoError(t, n.CheckInvariants())
			for name, was := range before {
				if now, ok := own(n)[name]; ok && left[name] {
					require.Equal(t, was, now, "container %s moved", name)
				}
			}
			for name, was := range cpus {
				require.True(t, more || heldCPUs(n)[name] <= was, "pod %s has %d CPUs, and had %d", name, heldCPUs(n)[name], was)
			}
			require.True(t, more || heldMemory(n) <= memory, "%d bytes are charged, and %d were", heldMemory(n), memory)

			// What refused pods had is given back at the next occasion.
			require.NoError(t, n.Start())
			for _, pod := range n.Active() {
				require.True(t, n.Admit(pod).Admit)
			}
			now, files := own(n), n.Files()
			require.NoError(t, n.Start())
			for _, pod := range n.Active() {
				require.True(t, n.Admit(pod).Admit)
			}
			require.Equal(t, now, own(n))
			require.Equal(t, files, n.Files())

			for _, pod := range n.Active() {
				n.Vanish(pod.Name)
			}
			last, err := simnode.ParsePod("last\napp a cpu=1 memory=1Mi")
			require.NoError(t, err)
			n.Add(last)
			result := n.Admit(last)
			require.True(t, result.Admit, "%s", result.Message)
			require.Equal(t, 1, heldCPUs(n)["last"])
			require.EqualValues(t, 1<<20, heldMemory(n), "what pods had is not given back")
		})
	}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// randomPod is a small pod, with a budget or without.
func randomPod(r *rand.Rand, name string) string {
	var b strings.Builder
	budget := r.IntN(4) > 0
	var lines []string
	exclusive := 0
	kinds := append([]string{"app", "app"}, []string{"init", "sidecar", "app"}[:r.IntN(4)]...)
	for i, kind := range kinds {
		line := fmt.Sprintf("%s c%d", kind, i)
		if !budget || r.IntN(2) == 0 {
			line += " cpu=1 memory=1Gi"
			exclusive++
		}
		lines = append(lines, line)
	}
	b.WriteString(name)
	if budget {
		fmt.Fprintf(&b, " cpu=%d memory=%dGi", exclusive+1+r.IntN(2), exclusive+1)
	}
	return b.String() + "\n" + strings.Join(lines, "\n")
}

// randomParts is what is lost of a pod: all, its own entry, or containers. Of one
// that is not recorded as a whole these are the last ones, which are written last.
func randomParts(r *rand.Rand, pod *v1.Pod, whole bool) []string {
	if r.IntN(4) == 0 {
		return []string{"all"}
	}
	var parts []string
	if !whole {
		kept := r.IntN(4)
		for c := range simnode.Containers(pod) {
			if kept--; kept < 0 {
				parts = append(parts, c.Name)
			}
		}
		return parts
	}
	if r.IntN(3) == 0 {
		return []string{"pod"}
	}
	for c := range simnode.Containers(pod) {
		if r.IntN(2) == 0 {
			parts = append(parts, c.Name)
		}
	}
	return parts
}

// own is the CPUs of the containers that have some that are no other pod's.
func own(n *simnode.Node) map[string]string {
	all := map[string]string{}
	for _, pod := range n.Active() {
		for c := range simnode.Containers(pod) {
			if cpus, ok := n.CPU.State().GetCPUSet(string(pod.UID), c.Name); ok {
				all[pod.Name+"/"+c.Name] = cpus.String()
			}
		}
	}
	return all
}

func heldCPUs(n *simnode.Node) map[string]int {
	all := map[string]int{}
	for _, pod := range n.Active() {
		all[pod.Name] = n.HoldingsOf(pod).All.Size()
	}
	return all
}

func heldMemory(n *simnode.Node) (sum uint64) {
	for _, node := range n.Memory.State().GetMachineState() {
		sum += node.MemoryMap[v1.ResourceMemory].Reserved
	}
	return sum
}

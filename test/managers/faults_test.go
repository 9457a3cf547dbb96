// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/test/faultfs"
	"github.com/podslice/podslice/test/simnode"
)

// TestEveryFaultOfEveryWrite admits and removes pods, and has each call that is
// made for a state file, in each of these operations, fail in each way, or end the
// kubelet, or the power. Then:
//
//   - an operation that fails says why, and the managers go on with what they had;
//   - each file has what it had or what it was to have, whole, and is readable by
//     its owner alone;
//   - the next kubelet starts on them, wherever between the two files the last one
//     has ended; no running pod has moved, and the pod that was being admitted can
//     be admitted.
//
// PODSLICE_SCENARIOS makes it hundreds of operations.
func TestEveryFaultOfEveryWrite(t *testing.T) {
	operations := 12
	if os.Getenv("PODSLICE_SCENARIOS") != "" {
		operations = 300
	}
	system := statefile.Use(faultfs.New())
	t.Cleanup(func() { statefile.Use(system) })
	r := rand.New(rand.NewPCG(1, 2))
	s := &faultScript{fs: faultfs.New()}
	faults := 0
	for i := range operations {
		for len(s.pods) > 6 || len(s.pods) > 0 && r.IntN(4) == 0 {
			// What it had is taken back with the next admission, in the same write.
			at := r.IntN(len(s.pods))
			s.gone = append(s.gone, s.pods[at])
			s.pods = slices.Delete(s.pods, at, at+1)
		}
		pod, err := simnode.ParsePod(randomPod(r, fmt.Sprint("pod", i)))
		require.NoError(t, err)
		t.Run(pod.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faults += s.operation(t, pod) })
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d operations, %d faults, %d pods refused", operations, faults, s.refused)
}

// faultScript is a node between two operations.
type faultScript struct {
	// fs has the state files, pods those that run, and gone those that have just
	// gone, whose CPUs and memory are still theirs.
	fs         *faultfs.FS
	pods, gone []*v1.Pod
	refused    int
}

const cpuFile, memoryFile = "/state/cpu_manager_state", "/state/memory_manager_state"

// begin is a kubelet from which pods go.
func (s *faultScript) begin(t *testing.T, fs *faultfs.FS) *simnode.Node {
	n := s.start(t, fs, append(slices.Clone(s.gone), s.pods...))
	synctest.Wait() // what it does in the background at first is done
	for _, pod := range s.gone {
		n.Vanish(pod.Name)
	}
	return n
}

// start starts a kubelet on the files, which admits all pods that run.
func (s *faultScript) start(t *testing.T, fs *faultfs.FS, pods []*v1.Pod) *simnode.Node {
	statefile.Use(fs)
	n := simnode.New(t)
	n.Dir = "/state"
	n.Info = simnode.Shape{Nodes: 2, Cores: 6, Threads: 2, Memory: resource.MustParse("16Gi")}.MachineInfo()
	n.ReservedCPUs = cpuset.New(0)
	for _, pod := range pods {
		n.Add(pod)
		for c := range simnode.Containers(pod) {
			n.Found(pod, c)
		}
	}
	require.NoError(t, n.Start())
	for _, pod := range pods {
		result := n.Admit(pod)
		require.True(t, result.Admit, "%s is killed: %s", pod.Name, result.Message)
	}
	return n
}

// operation admits the pod, once without a fault and then with each.
func (s *faultScript) operation(t *testing.T, pod *v1.Pod) (faults int) {
	n := s.begin(t, s.fs)
	fs := s.fs.Restart()
	stop(n)
	held := describeAll(n, s.pods)
	old := contents(t, fs)

	n = s.begin(t, fs.Restart())
	s.arm(n, -1, "")
	n.Add(pod)
	admitted := n.Admit(pod).Admit
	calls := s.fs.Calls()
	var placed string
	if admitted {
		placed = n.Describe(pod)
		require.Equal(t, 2, strings.Count(strings.Join(calls, " "), "rename"), "one write for each manager")
	}
	stop(n)
	done := contents(t, s.fs)
	after := s.fs.Restart()

	seen := map[[2]string]bool{}
	for at := range calls {
		for _, kind := range faultfs.Kinds {
			if kind == faultfs.Short && calls[at] != "write" {
				continue
			}
			faults++
			what := fmt.Sprintf("%s at call %d, %s", kind, at, calls[at])
			n := s.begin(t, fs.Restart())
			s.arm(n, at, kind)
			n.Add(pod)
			result := n.Admit(pod)
			broken := s.fs
			broken.Arm(-1, "")
			if !broken.Dead() && admitted {
				require.False(t, result.Admit, what)
				require.Contains(t, result.Message, "cannot replace state file", what)
				n.Remove(pod.Name)
				require.Equal(t, held, describeAll(n, s.pods), what)
				n.Add(pod)
				require.True(t, n.Admit(pod).Admit, what)
				require.NoError(t, n.CheckInvariants(), what)
				require.Equal(t, placed, n.Describe(pod), what)
				stop(n)
				require.Equal(t, done, contents(t, broken), what)
				continue
			}
			stop(n)
			for _, left := range append(broken.PowerFailures(), broken.Restart()) {
				found := contents(t, left)
				for i := range found {
					require.Contains(t, []string{old[i], done[i]}, found[i], "%s: neither the old state nor the new", what)
				}
				if seen[found] {
					continue
				}
				seen[found] = true
				n := s.start(t, left.Restart(), s.pods)
				require.Equal(t, held, describeAll(n, s.pods), what)
				n.Add(pod)
				require.Equal(t, admitted, n.Admit(pod).Admit, what)
				require.NoError(t, n.CheckInvariants(), what)
				for _, name := range s.fs.Names() {
					require.NotContains(t, name, "damaged", what)
				}
				require.EqualValues(t, 0o600, s.fs.Mode(cpuFile), what)
				require.EqualValues(t, 0o600, s.fs.Mode(memoryFile), what)
				stop(n)
			}
		}
	}
	s.fs, s.gone = after, nil
	if admitted {
		s.pods = append(s.pods, pod)
	} else {
		s.refused++
	}
	return faults
}

func stop(n *simnode.Node) {
	n.Stop()
	synctest.Wait()
}

// arm has the next calls of the node's kubelet counted.
func (s *faultScript) arm(n *simnode.Node, at int, kind faultfs.Kind) {
	s.fs = statefile.Use(faultfs.New()).(*faultfs.FS)
	statefile.Use(s.fs)
	s.fs.Arm(at, kind)
}

func contents(t *testing.T, fs *faultfs.FS) (texts [2]string) {
	for i, name := range []string{cpuFile, memoryFile} {
		text, err := fs.ReadFile(name)
		require.NoError(t, err)
		texts[i] = string(text)
	}
	return texts
}

func describeAll(n *simnode.Node, pods []*v1.Pod) string {
	var b strings.Builder
	for _, pod := range pods {
		for c := range simnode.Containers(pod) {
			if n.CPU.GetExclusiveCPUs(string(pod.UID), c.Name).IsEmpty() {
				continue // where the others run depends on all pods
			}
			fmt.Fprintf(&b, "%s/%s: %s %v\n", pod.Name, c.Name, n.CPU.GetCPUAffinity(string(pod.UID), c.Name), n.Memory.GetMemory(n.Logger, string(pod.UID), c.Name))
		}
	}
	return b.String()
}

// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"os"

	"k8s.io/klog/v2"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/utils/cpuset"
)

// cpuWrites has the kubelet's own code write to the file of its CPU manager, one
// of the several times that it does so for one decision; then the kubelet is
// killed. Ours has to live with such files, too.
func (n *node) cpuWrites(write func(cpustate.State)) {
	n.cancel()
	s, err := cpustate.NewCheckpointState(klog.Logger{}, n.dir, cpuFile, "static", n.running())
	must(err)
	write(s)
}

func (n *node) memoryWrites(write func(memorystate.State)) {
	n.cancel()
	s, err := memorystate.NewCheckpointState(klog.Logger{}, n.dir, memoryFile, "Static")
	must(err)
	write(s)
}

// olderKubelet is what a kubelet of before 1.37 leaves: the part of the files
// that it knows.
func (n *node) olderKubelet() {
	for _, name := range []string{cpuFile, memoryFile} {
		file := map[string]json.RawMessage{}
		must(json.Unmarshal([]byte(n.readFile(name)), &file))
		delete(file, "data")
		delete(file, "dataChecksum")
		text, err := json.Marshal(file)
		must(err)
		n.writeFile(name, string(text))
	}
}

func memoryBlock(gi uint64) []memorystate.Block {
	return []memorystate.Block{{NUMAAffinity: []int{0}, Type: "memory", Size: gi << 30}}
}

var fileFaults = []fault{
	{
		name: "admission-is-several-writes",
		what: "an admission replaces the state files several times; each file in between is one that a kill leaves behind (136604)",
		ours: "replaces each once",
		play: func(n *node) {
			n.begin(onCPUs(8))
			count := n.replacements(func() { n.admit("p cpu=3 memory=2Gi; app a cpu=2 memory=1Gi; app b") })
			n.want(count[cpuFile] == 1 && count[memoryFile] == 1, "a pod with two containers: %d times the CPU manager's, %d times the memory manager's", count[cpuFile], count[memoryFile])
		},
	},
	{
		name: "killed-while-taking-cpus",
		what: "killed between the two writes of an allocation, the kubelet does not start again (136604)",
		ours: "starts, and sorts it out",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(4)(s); s.scope = "container" })
			n.cpuWrites(func(s cpustate.State) { s.SetDefaultCPUSet(cpuset.New(0, 2, 3)) })
			n.boot()
			n.wantPool("0-3")
		},
	},
	{
		name: "killed-while-releasing-cpus",
		what: "the same in the release of CPUs (136604)",
		ours: "starts, and sorts it out",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(4)(s); s.gateOff, s.scope = true, "container" })
			pod := n.admit("p; app a cpu=1 memory=1Gi")
			n.end(pod)
			n.cpuWrites(func(s cpustate.State) { s.Delete("uid-p", "a") })
			n.boot()
			n.wantPool("0-3")
		},
	},
	{
		name: "killed-while-taking-cpus-for-a-pod",
		what: "killed before the containers of a pod with a budget are written, the kubelet gives the pod other CPUs, and those on record are lost (136604, 140989)",
		ours: "completes what is on record, within it",
		play: func(n *node) {
			n.begin(onCPUs(8))
			pod := parsePod("p cpu=2 memory=1Gi; app a cpu=2 memory=1Gi")
			n.cpuWrites(func(s cpustate.State) {
				s.SetDefaultCPUSet(cpuset.New(0, 3, 4, 5, 6, 7))
				s.SetPodCPUSet(string(pod.UID), cpuset.New(1, 2))
			})
			n.boot()
			n.admit("p cpu=2 memory=1Gi; app a cpu=2 memory=1Gi")
			n.restart(nil)
			n.want(n.exclusive(pod, "a").String() == "1-2", "the container has CPUs %s", n.exclusive(pod, "a"))
			n.want(n.sharedPool().Size() == 6, "the pod has 2 of 8 CPUs, and the node shared pool %s", cpuText(n.sharedPool()))
		},
	},
	{
		name: "pod-record-without-containers-is-never-released",
		what: "what is recorded for a pod without containers, by a kubelet that was killed or by a refusal half way, is never released",
		ours: "released when the pod is gone",
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.cpuWrites(func(s cpustate.State) {
				s.SetDefaultCPUSet(cpuset.New(0, 3, 4, 5, 6, 7))
				s.SetPodCPUSet("uid-p", cpuset.New(1, 2))
			})
			n.boot()
			n.probe()
			n.wantPool("0-7")
		},
	},
	{
		name: "killed-while-counting-memory",
		what: "killed between the writes of an allocation of memory, the kubelet does not start again (136604)",
		ours: "starts, and sorts it out",
		play: func(n *node) {
			n.begin(func(s *settings) { onMemory(1, 16)(s); s.scope = "container" })
			n.memoryWrites(func(s memorystate.State) { s.SetMemoryBlocks("uid-p", "a", memoryBlock(1)) })
			n.boot()
			n.probe()
			n.wantReserved("0")
		},
	},
	{
		name: "killed-while-taking-memory-for-a-pod",
		what: "killed before the containers of a pod with a budget are written, the memory record of the pod stays for ever when the pod is gone (141993)",
		ours: "released when the pod is gone",
		play: func(n *node) {
			n.begin(onMemory(1, 16))
			n.memoryWrites(func(s memorystate.State) { s.SetPodMemoryBlocks("uid-p", memoryBlock(2)) })
			n.boot()
			n.probe()
			n.want(len(n.podMemory("uid-p")) == 0, "podresources tells %v for a pod that is gone", n.podMemory("uid-p"))
		},
	},
	{
		name: "killed-while-taking-memory-of-running-pod",
		what: "with such a record of a pod that runs, machine state and record differ (141993)",
		ours: "completes the record",
		play: func(n *node) {
			n.begin(onMemory(1, 16))
			n.memoryWrites(func(s memorystate.State) { s.SetPodMemoryBlocks("uid-p", memoryBlock(2)) })
			n.boot()
			n.admit("p cpu=2 memory=2Gi; app a cpu=1 memory=1Gi; app b")
			n.wantReserved("2Gi")
			n.want(len(n.containerMemory("uid-p", "a")) == 1, "the container has no memory")
			n.restart(nil)
			n.wantReserved("2Gi")
		},
	},
	{
		name: "failed-write-is-ignored",
		what: "an allocation that cannot be written is logged and used; after the next start its CPUs are given to others",
		ours: "refuses the pod",
		play: func(n *node) {
			n.begin(func(s *settings) { onCPUs(4)(s); s.scope = "container" })
			must(os.RemoveAll(n.dir))
			_, result := n.try("p; app a cpu=1 memory=1Gi")
			n.want(!result.Admit, "the pod is admitted, and nothing is on record")
		},
	},
	{
		name: "older-kubelet-leaves-pods-half-known",
		what: "going back to a kubelet before 1.37 loses what pods with a budget hold; then neither that kubelet nor the one after it starts",
		ours: "starts, and gives the pod the same again",
		play: func(n *node) {
			n.begin(onCPUs(8))
			n.admit("p cpu=4 memory=4Gi; app a cpu=2 memory=2Gi")
			n.olderKubelet()
			n.boot()
		},
	},
}

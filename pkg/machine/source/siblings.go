// SPDX-License-Identifier: Apache-2.0

package source

import (
	"maps"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	"github.com/google/cadvisor/lib/utils/sysinfo"
	"k8s.io/utils/cpuset"
)

// siblings says where the kubelet takes for one core or socket what is none to the
// kernel. cAdvisor goes by the numbers of a core and its socket. Those of cores
// repeat from die to die on some machines and are all alike on others, and the
// threads of AMD's family 15h have one each. Those of sockets repeat from book to
// book on IBM Z.
func (s *sys) siblings(nodes []cadvisorapi.Node) {
	seen := cpuset.New(sysinfo.GetOnlineCPUs(nodes)...)
	sockets := map[int][]int{}
	for _, node := range nodes {
		for _, core := range node.Cores {
			sockets[core.SocketID] = append(sockets[core.SocketID], core.Threads...)
			kernels, ok := s.cpusOf(core.Threads[0], "core_cpus", "thread_siblings")
			kernels, kubelets := kernels.Intersection(seen), cpuset.New(core.Threads...)
			if !ok || kernels.Equals(kubelets) {
				continue
			}
			s.add("siblings", "%s: the kubelet takes the CPUs %s for one core, since they have the number %d on socket %d; to the kernel the core of CPU %d has the CPUs %s",
				s.name, kubelets, core.Id, core.SocketID, core.Threads[0], kernels)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sockets)) {
		cpu := sockets[id][0]
		kernels, ok := s.cpusOf(cpu, "package_cpus", "core_siblings")
		kernels, kubelets := kernels.Intersection(seen), cpuset.New(sockets[id]...)
		if ok && !kernels.Equals(kubelets) {
			s.add("socket siblings", "%s: the kubelet takes the CPUs %s for one socket, since theirs has the number %d; to the kernel the socket of CPU %d has the CPUs %s",
				s.name, kubelets, id, cpu, kernels)
		}
	}
}

// cpusOf is the CPUs that a CPU shares a unit with, by the name that the file has
// since Linux 5.4, and by the older one; each as a list or as a mask.
func (s *sys) cpusOf(cpu int, name, old string) (cpuset.CPUSet, bool) {
	for _, file := range []string{name, old} {
		file = join(s.cpuFolder(cpu), "topology", file)
		if set, err := s.cpuList(file + "_list"); err == nil && !set.IsEmpty() {
			return set, true
		}
		if set, err := s.cpuMap(file); err == nil && !set.IsEmpty() {
			return set, true
		}
	}
	return cpuset.CPUSet{}, false
}

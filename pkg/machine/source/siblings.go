// SPDX-License-Identifier: Apache-2.0

package source

import (
	cadvisorapi "github.com/google/cadvisor/lib/model"
	"k8s.io/utils/cpuset"
)

// siblings says where the kubelet takes several cores for one. cAdvisor goes by the
// numbers of a core and its socket, which repeat from die to die on some machines,
// and are all alike on others.
func (s *sys) siblings(nodes []cadvisorapi.Node) {
	for _, node := range nodes {
		for _, core := range node.Cores {
			kernels, ok := s.siblingsOf(core.Threads[0])
			kubelets := cpuset.New(core.Threads...)
			if ok && !kubelets.IsSubsetOf(kernels) {
				s.add("siblings", "%s: the kubelet takes the CPUs %s for one core, since they have the number %d on socket %d; to the kernel the core of CPU %d has the CPUs %s",
					s.name, kubelets, core.Id, core.SocketID, core.Threads[0], kernels)
				return
			}
		}
	}
}

// siblingsOf is the CPUs of a CPU's core, by the name that the file has since
// Linux 5.4, by the older one, or as a mask.
func (s *sys) siblingsOf(cpu int) (cpuset.CPUSet, bool) {
	folder := s.cpuFolder(cpu)
	for _, name := range []string{"core_cpus_list", "thread_siblings_list"} {
		if set, err := s.cpuList(join(folder, "topology", name)); err == nil && !set.IsEmpty() {
			return set, true
		}
	}
	set, err := s.cpuMap(join(folder, "topology/thread_siblings"))
	return set, err == nil && !set.IsEmpty()
}

// SPDX-License-Identifier: Apache-2.0

//go:build e2enode

package e2enode

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/test/e2e_node/node"
	"github.com/podslice/podslice/test/e2e_node/report"
	"github.com/podslice/podslice/test/e2e_node/statecheck"
	"github.com/podslice/podslice/test/podtext"
)

// limitSettled is for a node to come to rest after pods have come and gone.
const limitSettled = 5 * time.Minute

// judge has both verifiers look at the state files, and returns what upstream has
// read. The containers of pods by UID are checked against each other.
func (s *soak) judge(pods map[string]soakPod) *statecheck.Reading {
	t := s.t
	cpu, memory, err := s.n.StateFiles(ctx)
	must(t, err)
	files := statecheck.Files{CPU: cpu, Memory: memory}
	specs := map[string]*v1.Pod{}
	for uid, p := range pods {
		specs[uid] = p.spec
	}
	for _, problem := range statecheck.Verify(s.machine, files, specs) {
		t.Error(problem)
	}
	reading, err := statecheck.Upstream(t.TempDir(), s.machine, files)
	if err != nil {
		t.Errorf("upstream's managers do not start: %v", err)
	}
	if t.Failed() {
		t.Fatalf("the state files are\n%s\n%s", cpu, memory)
	}
	return reading
}

// look reads what a dead kubelet has left: the containers that run, which must be
// where the state files say.
func (s *soak) look() []running {
	list, err := s.n.RunningAtRest(ctx)
	must(s.t, err)
	reading := s.judge(nil)
	idle := 0
	for _, uid := range reading.Pods() {
		if !slices.ContainsFunc(list, func(c report.Running) bool { return c.UID == uid }) {
			idle++
		}
	}
	if idle > 0 {
		s.halfway++
	}
	say("soak: %d containers run; %d pods are on record, nothing runs of %d of them", len(list), len(reading.Pods()), idle)
	return s.compare(list, reading)
}

// compare holds what the kernel has of the containers against what is recorded.
func (s *soak) compare(list []report.Running, reading *statecheck.Reading) (all []running) {
	for _, c := range list {
		what := fmt.Sprintf("container %s of pod %s: ", c.Name, c.Pod)
		cpus, recorded := reading.CPUs[c.UID][c.Name]
		all = append(all, running{c, recorded})
		if recorded {
			equal(s.t, what+"cpuset.cpus, and CPUs on record", c.CPUs, cpus.String())
			equal(s.t, what+"Cpus_allowed_list, and CPUs on record", c.CPUsAllowed, cpus.String())
		}
		if _, ok := reading.Memory[c.UID][c.Name]; ok {
			equal(s.t, what+"cpuset.mems, and NUMA nodes on record", c.Mems, reading.Mems(c.UID, c.Name))
		}
	}
	return all
}

// settle waits until all live pods run, all others are gone, and the node shared
// pool is what the state files say, and returns what runs then.
func (s *soak) settle() []running {
	deadline := time.Now().Add(limitSettled)
	for {
		now, missing := s.settled()
		if missing == "" || s.t.Failed() {
			return now
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("after %s: %s", limitSettled, missing)
		}
		time.Sleep(time.Second)
	}
}

func (s *soak) settled() (now []running, missing string) {
	t := s.t
	must(t, s.n.KubeletAlive(ctx))
	r, err := s.n.Report(ctx)
	if err != nil {
		return nil, err.Error() // the kubelet's sockets may not be there yet
	}
	live := map[string]soakPod{} // by UID
	for _, p := range s.live {
		pod := r.Pod(p.manifest.NodeName)
		switch {
		case pod == nil:
			return nil, "the kubelet does not know pod " + p.manifest.Name
		case pod.Phase == string(v1.PodFailed):
			t.Fatalf("pod %s failed: %s: %s", pod.Name, pod.Reason, pod.Message)
		case !pod.AllRunning():
			return nil, fmt.Sprintf("not all of pod %s runs: %+v", pod.Name, pod.Containers)
		}
		live[pod.UID] = p
	}
	list, err := s.n.Running(ctx)
	must(t, err)
	for _, c := range list {
		if slices.ContainsFunc(s.leaving, func(p soakPod) bool { return p.manifest.NodeName == c.Pod }) {
			return nil, fmt.Sprintf("container %s of pod %s still runs", c.Name, c.Pod)
		}
	}
	reading := s.judge(live)
	for _, uid := range reading.Pods() {
		if _, ok := live[uid]; !ok {
			return nil, fmt.Sprintf("pod %s is still on record", uid)
		}
	}
	for _, c := range list {
		if _, recorded := reading.CPUs[c.UID][c.Name]; !recorded && c.CPUs != reading.Pool.String() {
			return nil, fmt.Sprintf("container %s of pod %s is on CPUs %s, the node shared pool is %s", c.Name, c.Pod, c.CPUs, reading.Pool)
		}
	}
	s.exclusive(live, reading)
	checkApart(t, r)
	return s.compare(list, reading), ""
}

// exclusive asserts that all containers that ask for whole CPUs have them on
// record.
func (s *soak) exclusive(live map[string]soakPod, reading *statecheck.Reading) {
	for uid, p := range live {
		for c := range podtext.Containers(p.spec) {
			if cpu := c.Resources.Requests.Cpu(); !cpu.IsZero() && cpu.MilliValue()%1000 == 0 {
				equal(s.t, fmt.Sprintf("number of CPUs on record of container %s of pod %s", c.Name, p.manifest.Name),
					reading.CPUs[uid][c.Name].Size(), int(cpu.Value()))
			}
		}
	}
}

// machineOf is the guest's machine as its kubelet has read it.
func machineOf(t *testing.T, n *node.Node, r *report.Report, config node.Config) statecheck.Machine {
	t.Helper()
	info := &cadvisorapi.MachineInfo{NumCores: len(r.Machine.CPUs), NumSockets: shape.Sockets}
	for _, from := range r.Machine.Nodes {
		node := cadvisorapi.Node{Id: from.ID, Memory: uint64(from.Memory), HugePages: hugePages(t, n, from.ID)}
		for _, cpu := range r.Machine.CPUs {
			siblings := parse(t, cpu.Siblings).List()
			if cpu.Node == from.ID && cpu.ID == siblings[0] {
				node.Cores = append(node.Cores, cadvisorapi.Core{Id: len(node.Cores), SocketID: cpu.Socket, Threads: siblings})
			}
		}
		info.Topology = append(info.Topology, node)
	}
	return statecheck.Machine{Info: info, ReservedCPUs: parse(t, config.ReservedCPUs), ReservedMemory: config.ReservedMemory}
}

func hugePages(t *testing.T, n *node.Node, id int) (all []cadvisorapi.HugePagesInfo) {
	t.Helper()
	out, err := n.Guest.Output(ctx, fmt.Sprintf("cd /sys/devices/system/node/node%d/hugepages && grep . */nr_hugepages", id))
	must(t, err)
	for line := range strings.Lines(out) {
		var pages cadvisorapi.HugePagesInfo
		if _, err := fmt.Sscanf(line, "hugepages-%dkB/nr_hugepages:%d", &pages.PageSize, &pages.NumPages); err != nil {
			t.Fatalf("hugepages %q: %v", line, err)
		}
		all = append(all, pages)
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

// Package report is what the reader on an emulated node (../nodereport) prints,
// and how people are shown it.
//
// Everything in a Report is read from the kernel (/sys, /proc, cgroup files) but
// for two things that no cgroup knows: what a pod is made of, which is the
// kubelet's read-only /pods, and the isolation level of a container, which
// follows from the kubelet's podresources API.
package report

import (
	"encoding/json"
	"slices"
	"strings"
)

// DevicesVariable is in the environment of a container that was given devices of
// ../deviceplugin: their names, as JoinDevices writes them.
const DevicesVariable = "PODSLICE_DEVICES"

// JoinDevices writes names of devices in one order.
func JoinDevices(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ",")
}

// Report is a node at one moment.
type Report struct {
	Machine Machine `json:"machine"`
	Pods    []Pod   `json:"pods"`
	// Devices are those that the kubelet knows of, by resource, as podresources
	// lists them.
	Devices map[string][]string `json:"devices,omitempty"`
	// States are the managers' checkpoint files by name, without what is the
	// same for every content (the checksum).
	States map[string]json.RawMessage `json:"states,omitempty"`
}

// Machine is the hardware as the guest's kernel sees it.
type Machine struct {
	Nodes []Node `json:"nodes"`
	CPUs  []CPU  `json:"cpus"`
}

// Node is a NUMA node.
type Node struct {
	ID     int    `json:"id"`
	CPUs   string `json:"cpus"`
	Memory int64  `json:"memory"` // bytes
}

// CPU is an online hardware thread.
type CPU struct {
	ID       int    `json:"id"`
	Node     int    `json:"node"`
	Socket   int    `json:"socket"`
	Siblings string `json:"siblings"` // the CPUs of its core
	L3       string `json:"l3"`       // the CPUs that share its L3 cache
}

// Pod is a pod that the kubelet knows.
type Pod struct {
	Namespace  string      `json:"namespace"`
	Name       string      `json:"name"`
	UID        string      `json:"uid"`
	Phase      string      `json:"phase"`
	Reason     string      `json:"reason,omitempty"`
	Message    string      `json:"message,omitempty"`
	Cgroup     string      `json:"cgroup"`
	CPUMax     string      `json:"cpuMax"`
	MemoryMax  string      `json:"memoryMax"`
	CPUIDs     string      `json:"cpuIDs"` // podresources: the pod's own allocation
	Containers []Container `json:"containers"`
}

// Container kinds.
const (
	App     = "container"
	Sidecar = "sidecar"
	Init    = "init container"
	// Ephemeral is a container that was added to a running pod.
	Ephemeral = "ephemeral container"
)

// Isolation levels, in the words of KEP-5526.
const (
	IsolationHost      = "host"
	IsolationPod       = "pod"
	IsolationContainer = "container"
)

// Container is a container of a pod's specification, and its main process if
// it runs. Sandboxes are not among them.
type Container struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	State     string `json:"state"` // running, waiting, terminated; the kubelet's word
	Message   string `json:"message,omitempty"`
	ID        string `json:"id,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Started   uint64 `json:"started,omitempty"` // of the process, in ticks since boot
	Isolation string `json:"isolation"`
	CPUIDs    string `json:"cpuIDs"`              // podresources: its exclusive CPUs
	DeviceIDs string `json:"deviceIDs,omitempty"` // podresources: its devices
	Devices   string `json:"devices,omitempty"`   // DevicesVariable of the process

	Cgroup          string `json:"cgroup,omitempty"`
	CPUs            string `json:"cpusetCpus"`
	CPUsEffective   string `json:"cpusetCpusEffective"`
	Mems            string `json:"cpusetMems"`
	MemsEffective   string `json:"cpusetMemsEffective"`
	CPUMax          string `json:"cpuMax"`
	MemoryMax       string `json:"memoryMax"`
	CPUsAllowed     string `json:"cpusAllowed"` // of the process
	MemsAllowed     string `json:"memsAllowed"`
	RestartedByNode int32  `json:"restarts"`
}

// Running is a container that runs, as far as the runtime and the kernel know it:
// what can be read while there is no kubelet. Of the container, what only a
// kubelet knows is empty.
type Running struct {
	Pod string `json:"pod"`
	UID string `json:"uid"`
	Container
}

// Pod returns the pod of a name, or nil.
func (r *Report) Pod(name string) *Pod {
	for i := range r.Pods {
		if r.Pods[i].Name == name {
			return &r.Pods[i]
		}
	}
	return nil
}

// Container returns the container of a name, or nil.
func (p *Pod) Container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// AllRunning says whether the pod runs with every container and sidecar, and
// every other init container has finished.
func (p *Pod) AllRunning() bool {
	for _, c := range p.Containers {
		if c.Kind == Init && c.State == "terminated" {
			continue
		}
		if c.State != "running" || c.PID == 0 {
			return false
		}
	}
	return p.Phase == "Running"
}

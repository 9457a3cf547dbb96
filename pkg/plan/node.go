// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
)

// Settings are a machine and what a kubelet's configuration makes of it.
type Settings struct {
	Machine machine.Machine
	// Topology is the machine's CPUs.
	Topology *cpuplan.Topology
	// CPUs is nil under the CPU manager's policy none.
	CPUs *cpuplan.Node
	// Memory is what the memory manager gives from, if StaticMemory is set; its
	// policy is None otherwise.
	Memory       memplan.Machine
	StaticMemory bool
	// Policy and Scope are the topology manager's.
	Policy placement.Policy
	Scope  placement.Scope
	// PodLevelResources and PodLevelManagers are the feature gates PodLevelResources
	// and PodLevelResourceManagers.
	PodLevelResources, PodLevelManagers bool
	// Explain asks for the steps of every admission.
	Explain bool
	// Allocatable is what all pods together may request.
	Allocatable Amounts
	// CFSQuota is whether there are CFS quotas at all, and QuotaPeriod the time that
	// they are for; 0 is the usual one.
	CFSQuota    bool
	QuotaPeriod time.Duration
}

// Node is a kubelet's node and what pods have on it.
type Node struct {
	Settings
	cpus   cpuplan.State
	memory memplan.Host
	// requested is what all pods request, pods the number of them, and ports the
	// host ports that they use.
	requested Amounts
	ports     map[hostPort]bool
	// running are the pods that were there from the beginning.
	running map[string]bool
}

// NewNode returns the node with nothing on it but what is on record.
func NewNode(s Settings, cpus cpuplan.State, memory memplan.Records) Node {
	n := Node{Settings: s, cpus: cpus, memory: memplan.NewHost(s.Memory, memory), running: map[string]bool{}}
	for _, uid := range cpus.PodUIDs() {
		n.running[uid] = true
	}
	for uid := range memory.All() {
		n.running[uid] = true
	}
	for uid := range n.running {
		n.requested = n.requested.plus(n.onRecord(uid))
	}
	return n
}

// onRecord is what a pod requests at least, by what it has.
func (n Node) onRecord(uid string) Amounts {
	a := Amounts{Pods: 1, MilliCPU: int64(n.cpus.Record(uid).CPUs().Size()) * 1000, Scalars: map[string]int64{}}
	for b := range n.memory.Records().Pod(uid).Charges() {
		if b.Resource == memplan.Ordinary {
			a.Memory += int64(b.Size)
		} else {
			a.Scalars[b.Resource] += int64(b.Size)
		}
	}
	return a
}

// Records is what pods have.
func (n Node) Records() (cpuplan.State, memplan.Records) { return n.cpus, n.memory.Records() }

// Running lists the UIDs of the pods that were there from the beginning.
func (n Node) Running() map[string]bool { return n.running }

// Host is the memory of the machine with what is on record.
func (n Node) Host() memplan.Host { return n.memory }

// SharedCPUs is the node shared pool; without exclusive CPUs, all of the machine.
func (n Node) SharedCPUs() cpuplan.Set {
	if n.CPUs == nil {
		return n.Topology.All()
	}
	return n.CPUs.Shared(n.cpus)
}

// whole says whether pods with a budget are allocated as a whole.
func (n Node) whole() bool { return n.Scope == placement.ScopePod }

// SPDX-License-Identifier: Apache-2.0

package memorymanager

import (
	"context"
	"errors"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/podslice/podslice/pkg/kubelet/cm/memorymanager/state"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/running"
	"github.com/podslice/podslice/pkg/kubelet/cm/statefile"
	"github.com/podslice/podslice/pkg/kubelet/cm/topologymanager"
)

// open loads the state file, which does not keep the kubelet down when it is
// damaged or gone. If nothing runs, nothing is to be restored. Otherwise there is
// what the damaged file has still, and the NUMA nodes that containers are bound
// to, as the runtime says: a pod of which nothing is recorded has its memory
// there when it is admitted again. How much that is only the pod's spec tells.
// Where the runtime does not know, the hints of the CPU manager remain, which has
// the pod in a file of its own.
func (m *manager) open(ctx context.Context, logger klog.Logger, runtime runtimeService, containers containermap.ContainerMap) (*state.Store, map[string]map[string]numa.Set) {
	store, err := state.Open(logger, m.directory, memoryManagerStateFileName, string(m.policy.name), m.policy.machine)
	if err == nil && !store.Missing() {
		return store, nil
	}
	runs := running.Ask(ctx, runtime, containers)
	if err != nil {
		topologymanager.CountStateProblem(metrics.ResourceManagerMemory, topologymanager.DamagedFile)
		repair := ""
		if damage := (*statefile.Damage)(nil); errors.As(err, &damage) {
			repair = damage.RepairCommand()
			m.remedy += ", or if its record was lost with the damaged file: " + repair
		}
		records := store.Host().Records()
		if len(runs) == 0 {
			logger.Error(err, "The memory manager begins afresh: no container runs", "repair", repair)
			records = memplan.Records{}
		} else {
			logger.Error(err, "The memory manager goes on with what can be read and with what the runtime says of the containers that run",
				"runningPods", len(runs), "repair", repair)
		}
		store.Update(logger, records)
	}
	seen := map[string]map[string]numa.Set{}
	for uid, pod := range runs {
		seen[uid] = map[string]numa.Set{}
		for name, b := range pod {
			if nodes, err := numa.NewSet(b.NUMANodes.UnsortedList()...); err == nil {
				seen[uid][name] = nodes
			}
		}
	}
	return store, seen
}

// planAtSeen plans with the NUMA nodes on which a container runs whose record is
// lost, or for "" its whole pod, and with the affinity if there are none or they
// have no room. What is recorded wins over either.
func (m *manager) planAtSeen(uid, container string, affinity numa.Hint, plan func(affinity numa.Hint) (memplan.PodRecord, error)) (memplan.PodRecord, error) {
	nodes := m.seen[uid][container]
	if container == "" {
		for _, of := range m.seen[uid] {
			nodes = nodes.Union(of)
		}
	}
	if nodes = nodes.Intersection(m.policy.machine.Nodes()); !nodes.IsEmpty() {
		if record, err := plan(numa.Hint{Nodes: nodes, Preferred: true}); err == nil {
			return record, nil
		}
	}
	return plan(affinity)
}

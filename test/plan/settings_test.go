// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpumanager/topology"
	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/plan"
	"github.com/podslice/podslice/test/simnode"
)

// roomy is more than any machine has to allocate: the managers alone decide.
var roomy = plan.Amounts{Pods: 1 << 40, MilliCPU: 1 << 50, Memory: 1 << 60, Scalars: map[string]int64{"hugepages-2Mi": 1 << 60, "hugepages-1Gi": 1 << 60}}

// settingsOf is the node of a plan for the node, whose kubelet has started.
func settingsOf(t *testing.T, n *simnode.Node) plan.Settings {
	t.Helper()
	m, err := machine.FromMachineInfo("machine", n.Info)
	require.NoError(t, err)
	read, err := topology.Discover(n.Logger, n.Info)
	require.NoError(t, err)
	s := plan.Settings{
		Machine: m, PodLevelResources: true, PodLevelManagers: n.Gate, Allocatable: roomy,
		CFSQuota: true, QuotaPeriod: 100 * time.Millisecond, StaticMemory: cmp.Or(n.MemoryPolicy, "Static") == "Static",
	}
	s.Topology, err = read.Plan()
	require.NoError(t, err)
	reserved := resource.MustParse("1Gi")
	reservation := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(max(n.ReservedCPUs.Size(), n.Reserve)), resource.DecimalSI),
		v1.ResourceMemory: reserved,
	}
	s.CPUs, err = cpuplan.Configure(cpuplan.Configuration{
		Policy: cmp.Or(n.CPUPolicy, "static"), Options: n.CPUOptions, Alpha: true, Beta: true, ReconcilePeriod: time.Hour,
		Reserved: cpuplan.NewSet(n.ReservedCPUs.UnsortedList()...), Reservation: reservation, SingleNUMANode: n.TopologyPolicy == "single-numa-node",
	}, read.Plan)
	require.NoError(t, err)
	var ids []int
	var rows [][]uint64
	var specs []memplan.NodeSpec
	first := -1
	for _, node := range n.Info.Topology {
		ids, rows = append(ids, node.Id), append(rows, node.Distances)
		spec := memplan.NodeSpec{ID: node.Id, Memory: node.Memory, HugePages: map[string]uint64{}, NoCPUs: len(node.Cores) == 0}
		for _, h := range node.HugePages {
			name := fmt.Sprintf("hugepages-%s", resource.NewQuantity(int64(h.PageSize<<10), resource.BinarySI))
			spec.HugePages[name] = h.NumPages * h.PageSize << 10
		}
		specs = append(specs, spec)
		if node.Memory > 0 && (first < 0 || node.Id < first) {
			first = node.Id
		}
	}
	s.Memory, err = memplan.Configure(memplan.Configuration{
		Policy: cmp.Or(n.MemoryPolicy, "Static"), Reservation: reservation,
		Reserved: []memplan.Reservation{{Node: first, Limits: v1.ResourceList{v1.ResourceMemory: reserved}}},
	}, specs)
	require.NoError(t, err)
	if distances, err := numa.NewDistances(ids, rows); err == nil {
		s.Memory = s.Memory.WithDistances(distances)
	}
	configured, err := placement.Configure(placement.Configuration{Policy: n.TopologyPolicy, Scope: n.Scope, Options: n.TopologyOptions, Alpha: true}, ids, rows)
	require.NoError(t, err)
	s.Policy, s.Scope = configured.Policy, configured.Scope
	return s
}

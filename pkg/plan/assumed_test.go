// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/nodeconfig"
)

// requireStarts has a kubelet start on the machine with what is assumed for it.
func requireStarts(t *testing.T, m machine.Machine) *nodeconfig.Node {
	t.Helper()
	c, err := nodeconfig.Read("assumed", []byte(Assumed(m)))
	require.NoError(t, err)
	n, err := c.For(m)
	require.NoError(t, err)
	return n
}

func TestAssumedStartsOnTheCatalogue(t *testing.T) {
	for _, name := range catalog.Names() {
		m, err := catalog.Get(name)
		require.NoError(t, err)
		n := requireStarts(t, m)
		require.Equal(t, cpuplan.PolicyStatic, n.CPUPolicy, name)
		require.Equal(t, memplan.PolicyStatic, n.MemoryPolicy, name)
		require.Equal(t, placement.Restricted, n.Topology.Policy.Strictness(), name)
	}
}

// TestAssumedStartsOnOddMachines has machines on which not all managers can do
// their work.
func TestAssumedStartsOnOddMachines(t *testing.T) {
	const static, restricted = cpuplan.PolicyStatic, placement.Restricted
	for name, test := range map[string]struct {
		memory, nodes, cpuNode string
		cpu, mem               string
		topology               placement.Strictness
	}{
		"without nodes' memory":  {"8Gi", "{id: 0, memory: 0}", "0", static, memplan.PolicyNone, restricted},
		"without memory":         {"0", "{id: 0, memory: 0}", "0", static, memplan.PolicyNone, restricted},
		"little memory":          {"0", "{id: 0, memory: 500Mi}", "0", static, memplan.PolicyStatic, restricted},
		"hardly any memory":      {"0", "{id: 0, memory: 3Mi}", "0", static, memplan.PolicyNone, restricted},
		"memory in small pieces": {"0", "{id: 0, memory: 1Gi}, {id: 1, memory: 1Gi}, {id: 2, memory: 1Gi}", "0", static, memplan.PolicyNone, restricted},
		"memory on node 1":       {"0", "{id: 0, memory: 0}, {id: 1, memory: 8Gi}", "0", static, memplan.PolicyStatic, restricted},
		"hugepages on node 0":    {"0", "{id: 0, memory: 8Gi, hugepages: {1Gi: 7}}, {id: 1, memory: 8Gi}", "0", static, memplan.PolicyStatic, restricted},
		"memory on node 255":     {"0", "{id: 0, memory: 8Gi}, {id: 255, memory: 8Gi}", "0", static, memplan.PolicyNone, placement.None},
		"CPUs on node 255":       {"0", "{id: 0, memory: 8Gi}, {id: 255, memory: 8Gi}", "255", cpuplan.PolicyNone, memplan.PolicyNone, placement.None},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := machine.Parse(name, fmt.Appendf(nil, "name: odd\nmemory: %s\nnodes: [%s]\ncpus: [{cpus: 0-3, threads: 2, node: %s}]\n", test.memory, test.nodes, test.cpuNode))
			require.NoError(t, err)
			n := requireStarts(t, m)
			require.Equal(t, test.cpu, n.CPUPolicy)
			require.Equal(t, test.mem, n.MemoryPolicy)
			require.Equal(t, test.topology, n.Topology.Policy.Strictness())
		})
	}
}

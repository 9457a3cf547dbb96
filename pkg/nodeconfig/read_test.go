// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/machine/catalog"
)

const database = `
kind: KubeletConfiguration
apiVersion: kubelet.config.k8s.io/v1beta1
featureGates: {PodLevelResourceManagers: true}
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
reservedSystemCPUs: "0,32"
systemReserved: {memory: 1Gi}
evictionHard: {memory.available: 100Mi}
reservedMemory:
- {numaNode: 0, limits: {memory: 1124Mi}}
`

func TestFor(t *testing.T) {
	c, err := Read("kubelet.yaml", []byte(database))
	require.NoError(t, err)
	m, err := catalog.Get("amd-epyc-7513-nps4")
	require.NoError(t, err)
	n, err := c.For(m)
	require.NoError(t, err)
	require.Equal(t, "0,32", n.CPUs.Reserved().String())
	require.EqualValues(t, "single-numa-node", n.Topology.Policy.Strictness())
	require.EqualValues(t, "pod", n.Topology.Scope)
	require.True(t, n.Gates.On(PodLevelResourceManagers))
	require.True(t, n.Gates.On(PodLevelResources))
	require.Equal(t, 110, n.MaxPods)
	memory := n.Reservation["memory"]
	require.Equal(t, "1124Mi", memory.String())
}

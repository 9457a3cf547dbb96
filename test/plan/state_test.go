// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/plan"
	"github.com/podslice/podslice/pkg/state"
)

// TestAgreesFromState begins the plan with the state files of a node, whose kubelet
// then starts anew with another policy of the topology manager: pods that were there
// keep what they have, and new ones get the same in both. The scope stays, since
// files do not tell of pods that run and have nothing on record.
func TestAgreesFromState(t *testing.T) {
	names := catalog.Names()
	kept, admitted, refused := 0, 0, 0
	for i := range 100 {
		g := &generator{Rand: rand.New(rand.NewPCG(5, uint64(i)))}
		name := ""
		if i%5 == 0 {
			name = names[i/5%len(names)]
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			n := newNode(t)
			g.node(n, name)
			n.CPUPolicy, n.MemoryPolicy = "static", "Static"
			if n.Start() != nil {
				return
			}
			var played []string
			defer func() {
				if t.Failed() {
					t.Logf("machine %q: %s\n%s", name, settingsText(n), strings.Join(played, "\n"))
				}
			}()
			b := newBoth(t, n)
			for p := range 2 + g.IntN(5) {
				played = append(played, g.pod(fmt.Sprintf("old%d", p)))
				b.admit(played[len(played)-1])
			}
			b.compare()
			for _, pod := range b.pods {
				require.NoError(t, n.StartContainers(pod))
			}
			if n.CPUOptions["align-by-socket"] == "" && n.TopologyPolicy != "none" { // under which the scope is none
				n.TopologyPolicy = pick(g, "best-effort", "restricted", "single-numa-node")
			}
			require.NoError(t, n.Start())

			files, err := state.Read(n.Dir)
			require.NoError(t, err)
			cpus, memory, err := files.Records()
			require.NoError(t, err)
			s := settingsOf(t, n)
			require.NoError(t, s.CheckRecords(cpus, memory))
			b.plan = plan.NewNode(s, cpus, memory).Know(b.pods)
			for _, pod := range b.pods {
				require.True(t, n.Admit(pod).Admit, pod.Name)
				next, verdict := b.plan.Admit(pod)
				require.True(t, verdict.Admitted, "%s: %s", pod.Name, verdict.Message)
				b.plan = next
				kept++
			}
			b.compare()
			for p := range 3 + g.IntN(8) {
				played = append(played, g.pod(fmt.Sprintf("new%d", p)))
				if b.admit(played[len(played)-1]).Admitted {
					admitted++
				} else {
					refused++
				}
			}
			b.compare()
			n.Stop()
		})
	}
	t.Logf("%d pods kept what they had, %d came, %d were refused", kept, admitted, refused)
	require.Greater(t, kept, 100)
	require.Greater(t, admitted, 100)
	require.Greater(t, refused, 50)
}

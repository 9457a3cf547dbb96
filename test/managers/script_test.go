// SPDX-License-Identifier: Apache-2.0

package managers

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2/ktesting"

	"github.com/podslice/podslice/test/simnode"
	"github.com/podslice/podslice/test/simnode/script"
)

// TestScripts runs the scripts under testdata. Package script lists their commands;
// there are those of observe, partial and damaged, too. After each command the state is held against
// what must always be so, see simnode.CheckInvariants.
func TestScripts(t *testing.T) {
	registerMetrics(t)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			var grown counters
			r := &script.Runner{TB: t, Prepare: func(n *simnode.Node) {
				n.Logger, _ = ktesting.NewTestContext(t)
				grown.since(t)
			}}
			r.More = observe(t, r, &grown)
			maps.Copy(r.More, partial(t, r))
			maps.Copy(r.More, damaged(t, r))
			defer r.Close()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				text, err := r.Run(script.Command{Name: d.Cmd, Args: d.CmdArgs, Input: d.Input})
				require.NoError(t, err, d.Pos)
				require.NoError(t, r.Node.CheckInvariants(), d.Pos)
				return text
			})
		})
	})
}

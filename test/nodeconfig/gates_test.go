// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/cmd/kubelet/app" // for the feature gates that a kubelet has
)

var rewrite = os.Getenv("REWRITE_GATES") != ""

// TestGateTable holds the table of pkg/nodeconfig and the gates that a kubelet
// knows together. With REWRITE_GATES=1 in the environment it writes the table.
func TestGateTable(t *testing.T) {
	const path = "../../pkg/nodeconfig/gates.txt"
	want := gateTable()
	if rewrite {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o666))
	}
	is, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(is), "run this test with REWRITE_GATES=1")
}

// gateTable has a line for each gate: its name, maturity, default, whether it is
// locked to that, and the gates that it needs.
func gateTable() string {
	var text strings.Builder
	gate := utilfeature.DefaultMutableFeatureGate
	needs := gate.Dependencies()
	specs := gate.GetAll()
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		spec := specs[name]
		stage := map[string]string{
			string(featuregate.PreAlpha): "pre-alpha", string(featuregate.Alpha): "alpha", string(featuregate.Beta): "beta",
			string(featuregate.GA): "ga", string(featuregate.Deprecated): "deprecated",
		}[string(spec.PreRelease)]
		fmt.Fprintf(&text, "%s %s %t", name, stage, spec.Default)
		if spec.LockToDefault {
			text.WriteString(" locked")
		}
		if len(needs[name]) > 0 {
			list := make([]string, len(needs[name]))
			for i, one := range needs[name] {
				list[i] = string(one)
			}
			fmt.Fprintf(&text, " needs %s", strings.Join(list, ","))
		}
		text.WriteString("\n")
	}
	return text.String()
}

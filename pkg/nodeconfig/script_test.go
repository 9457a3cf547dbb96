// SPDX-License-Identifier: Apache-2.0

package nodeconfig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// TestScripts runs the scripts in testdata: "machine [name]" sets the machine, by
// its name in the catalogue or as it is described, "validate" lists what is found
// in a configuration, whose kind and apiVersion may be left out.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var m machine.Machine
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "machine":
				var err error
				if len(d.CmdArgs) > 0 {
					m, err = catalog.Get(d.CmdArgs[0].Key)
				} else {
					m, err = machine.Parse("machine", []byte(d.Input))
				}
				require.NoError(t, err)
				return ""
			case "validate":
				text := d.Input
				if !strings.Contains(text, "kind") {
					text = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n" + text
				}
				c, err := Read("kubelet.yaml", []byte(text))
				if err != nil {
					return err.Error() + "\n"
				}
				var out strings.Builder
				if d.HasArg("strict") {
					fmt.Fprintln(&out, c.Strict())
				}
				for _, f := range c.Validate(m) {
					fmt.Fprintf(&out, "%s: %s: %s\n", f.Severity, f.Field, f.Message)
					if f.Fix != "" {
						fmt.Fprintf(&out, "    %s\n", f.Fix)
					}
				}
				if _, err := c.For(m); err == nil {
					out.WriteString("starts\n")
				}
				return out.String()
			}
			t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
			return ""
		})
	})
}

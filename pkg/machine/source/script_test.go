// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
)

// TestScripts runs the scripts in testdata. "machine" describes one in the format
// of package machine. "sys" reads what Linux shows of it, after changes to the
// files, each a line: "PATH = CONTENT" writes one, "- TEXT" removes every path with
// that text. "report" reads a MachineInfo. "read" reads what the input names. All
// tell the notes and the machine.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var m machine.Machine
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "machine":
				var err error
				m, err = machine.Parse("machine", []byte(d.Input))
				require.NoError(t, err, d.Pos)
				return ""
			case "sys":
				s := sysOf(t, m, cpuset.New())
				for _, line := range strings.Split(d.Input, "\n") {
					change(t, s, line)
				}
				return told(readSys("copy", "copy", "/", s.mapFS()))
			case "report":
				return told(readFile("report.json", strings.NewReader(d.Input)))
			case "read":
				return told(Read(d.Input))
			}
			t.Fatalf("%s: no command %q", d.Pos, d.Cmd)
			return ""
		})
	})
}

func change(t *testing.T, s sysFiles, line string) {
	if part, ok := strings.CutPrefix(line, "- "); ok {
		before := len(s.files) + len(s.links)
		s.remove(part)
		require.Less(t, len(s.files)+len(s.links), before, line)
	} else if name, text, ok := strings.Cut(line+" ", " = "); ok {
		if strings.HasPrefix(name, "cpu/") || strings.HasPrefix(name, "node/") {
			name = "sys/devices/system/" + name
		}
		s.files[name] = strings.ReplaceAll(text, `\n`, "\n")
	} else {
		require.Empty(t, line)
	}
}

func told(m machine.Machine, notes []string, err error) string {
	var b bytes.Buffer
	if err != nil {
		text := strings.ReplaceAll(err.Error(), Forms, "FORMS")
		return fmt.Sprintf("error: %s\n", text)
	}
	for _, note := range notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	b.Write(m.YAML())
	return b.String()
}

// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is what a release does in one case, from its check.txt.
type verdict struct {
	release, name, writer, written, read string
	starts                               bool
	moved, killed                        int
}

var head = regexp.MustCompile(`^(\S+), written by (\S+) with (\S+), read with ([^:]+): ?(.*)$`)

func readVerdicts(t *testing.T, release string) (all []verdict) {
	text, err := os.ReadFile(filepath.Join("testdata", release, "check.txt"))
	require.NoError(t, err)
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if m := head.FindStringSubmatch(line); m != nil {
			all = append(all, verdict{release: release, name: m[1], writer: m[2], written: m[3], read: m[4], starts: !strings.HasPrefix(m[5], "does not start")})
			continue
		}
		v := &all[len(all)-1]
		switch {
		case strings.HasPrefix(line, "  moves "):
			v.moved++
		case strings.HasPrefix(line, "  kills "):
			v.killed++
		default:
			t.Fatalf("%s: not a verdict: %q", release, line)
		}
	}
	return all
}

// TestGoingBack holds the verdicts of other releases on podslice's files against
// what docs/upgrade.md promises: the table there, and that no pod is touched by a
// kubelet of 1.35 or of 1.36 without the gate.
func TestGoingBack(t *testing.T) {
	var table strings.Builder
	table.WriteString("| back to | scope | gate before | gate there | cases | does not start | kills a pod | moves a container | all stay |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, release := range releases {
		verdicts := readVerdicts(t, release)
		for _, written := range settings {
			for _, read := range settings {
				var cases, silent, kills, moves int
				for _, v := range verdicts {
					if v.writer != "podslice" || v.written != written.Name || v.read != read.Name {
						continue
					}
					cases++
					switch {
					case !v.starts:
						silent++
					case v.killed > 0:
						kills++
					case v.moved > 0:
						moves++
					}
					if release != "v1.37.2" && !read.Gate && v.name != "budget-wide" {
						require.True(t, v.starts && v.killed+v.moved == 0, "%v", v)
					}
				}
				if cases == 0 {
					continue
				}
				require.Equal(t, len(podCases), cases, "%s, %s, %s", release, written.Name, read.Name)
				fmt.Fprintf(&table, "| %s | `%s` | %s | %s | %d | %d | %d | %d | %d |\n", release, read.Scope, onOff(written.Gate), onOff(read.Gate),
					cases, silent, kills, moves, cases-silent-kills-moves)
			}
		}
	}
	const path, begin, end = "../../docs/upgrade.md", "<!-- begin table -->\n", "<!-- end table -->"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	was, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+table.String()+end+after), 0o666))
		return
	}
	require.Equal(t, was, table.String(), "docs/upgrade.md has another table")
}

// TestNoWorseThanItsOwn: a release that does not get along with podslice's files
// does not get along with its own either. There is one exception: 1.36 allocates
// nothing to containers that ask for no memory (138770), expects to find that on
// record, and sometimes cannot do so again.
func TestNoWorseThanItsOwn(t *testing.T) {
	for _, release := range releases {
		bad := map[string]bool{}
		verdicts := readVerdicts(t, release)
		for _, v := range verdicts {
			if v.writer == release && (!v.starts || v.killed > 0) {
				bad[v.name+v.written+v.read] = true
			}
		}
		for _, v := range verdicts {
			nothing := release == "v1.36.3" && v.name == "budget-mixed" && v.read == "gate-on-container"
			if v.writer == "podslice" && !nothing && (!v.starts || v.killed > 0) {
				require.True(t, bad[v.name+v.written+v.read], "%v", v)
			}
		}
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

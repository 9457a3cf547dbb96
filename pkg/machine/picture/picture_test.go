// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
)

// TestPictures runs the scripts in testdata: "draw" draws a machine of the
// catalogue, or the one in the input, with offline=CPUs less. Each of
// marks=(...) is "MARK:CPUS"; CPUs without one have a dot. "painted" shows where
// colours and emphasis would be.
func TestPictures(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			require.Equal(t, "draw", d.Cmd)
			var name, offline string
			var marks []string
			for _, arg := range d.CmdArgs {
				switch arg.Key {
				case "machine":
					name = arg.Vals[0]
				case "offline":
					offline = arg.Vals[0]
				case "marks":
					marks = arg.Vals
				}
			}
			m, err := catalog.Get(name)
			if name == "" {
				m, err = machine.Parse("input", []byte(d.Input))
			}
			require.NoError(t, err, d.Pos)
			if offline != "" {
				m, err = m.Without(parse(t, offline))
				require.NoError(t, err)
			}
			var o Options
			if marks != nil {
				o = marked(t, marks)
			}
			if d.HasArg("painted") {
				o.Paint = func(_ int, mark string) string { return "(" + mark + ")" }
				o.Emphasis = func(text string) string { return "*" + text + "*" }
				o.Node = func(id int) string { return fmt.Sprintf("note %d", id) }
			}
			return draw(t, m, o)
		})
	})
}

func draw(t *testing.T, m machine.Machine, o Options) string {
	var out bytes.Buffer
	require.NoError(t, Draw(&out, m, o))
	return out.String()
}

// parse reads a list with semicolons for commas, which arguments of
// scripts cannot have.
func parse(t *testing.T, list string) cpuset.CPUSet {
	set, err := cpuset.Parse(strings.ReplaceAll(list, ";", ","))
	require.NoError(t, err)
	return set
}

func marked(t *testing.T, marks []string) Options {
	of := map[int]string{}
	o := Options{Mark: func(cpu int) string {
		if mark, ok := of[cpu]; ok {
			return mark
		}
		return "."
	}}
	for _, one := range marks {
		mark, cpus, ok := strings.Cut(one, ":")
		require.True(t, ok, one)
		for _, cpu := range parse(t, cpus).List() {
			of[cpu] = mark
		}
		o.Legend = append(o.Legend, mark+" has the CPUs "+parse(t, cpus).String())
	}
	o.Legend = append(o.Legend, ". is free")
	return o
}

// TestEveryCPU has every CPU marked once, and no line that is too long, whatever
// CPUs are offline.
func TestEveryCPU(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, name := range catalog.Names() {
		m, err := catalog.Get(name)
		require.NoError(t, err)
		for _, share := range []int{0, 50, 2} {
			var offline []int
			for _, c := range m.CPUs[1:] {
				if share > 0 && random.IntN(share) == 0 {
					offline = append(offline, c.ID)
				}
			}
			less := m
			if len(offline) > 0 {
				less, err = m.Without(cpuset.New(offline...))
				require.NoError(t, err)
			}
			for _, width := range []int{1, 3} {
				seen := map[int]int{}
				out := draw(t, less, Options{
					Mark:  func(cpu int) string { return strings.Repeat("@", 1+cpu%width) },
					Paint: func(cpu int, mark string) string { seen[cpu]++; return "<" + mark + ">" },
				})
				require.Equal(t, len(less.CPUs), strings.Count(out, "<"))
				require.Len(t, seen, len(less.CPUs))
				out = draw(t, less, Options{Mark: func(cpu int) string { return strings.Repeat("@", 1+cpu%width) }})
				for _, line := range strings.Split(out, "\n")[1:] {
					require.LessOrEqual(t, len(line), Width+20, line)
				}
			}
		}
	}
}

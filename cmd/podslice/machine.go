// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podslice/podslice/pkg/machine"
	"github.com/podslice/podslice/pkg/machine/catalog"
	"github.com/podslice/podslice/pkg/machine/picture"
)

// indented is a list in lines of a help text.
func indented(words []string, columns int) string {
	var lines []string
	for i, word := range words {
		last := len(lines) - 1
		switch {
		case i == 0 || len(lines[last])+1+len(word) > 78:
			lines = append(lines, strings.Repeat(" ", columns)+word)
		default:
			lines[last] += " " + word
		}
		if i < len(words)-1 {
			lines[len(lines)-1] += ","
		}
	}
	return strings.Join(lines, "\n")
}

func newMachine() *cobra.Command {
	var from, output string
	cmd := &cobra.Command{
		Use:   "machine",
		Short: "Show a machine as the resource managers see it",
		Long: `Show a machine as the kubelet's resource managers see it: the CPUs that are
online, their cores, last-level caches, sockets and NUMA nodes, and the nodes'
memory, hugepages and distances. What a source lacks is said on standard error.
The JSON and YAML are input for --machine again.

--machine takes, here and for the other commands
  nothing        this machine; "podslice state verify" and "repair" then hold the
                 files against no machine, and take / for this one
  -              an archive, a report or a description from standard input
  a folder       with a copy of /sys or a part of it with devices/system/cpu and
                 devices/system/node; links out of the folder are not followed
  an archive     of such a folder: tar, or tar with gzip, bzip2 or zstd
  a report       cAdvisor's MachineInfo as JSON
  a description  podslice's own YAML or JSON, as this command writes it
  a name         of a machine that podslice ships:
` + indented(catalog.Names(), 17) + `
  a line         such as "2 sockets, 2 nodes each, 16 cores, 2 threads, 256Gi": nodes
                 in a socket, cores in a node, threads in a core, and the memory of
                 the machine, of which each node has the same. Parts may stand in any
                 order and be left out: there is then one of each, and 4Gi a CPU.

On another machine this makes an archive:
  cp -r --parents /sys/devices/system/node /sys/devices/system/cpu /proc/meminfo copy
  tar czf sys.tgz copy
cp says of a few files that they cannot be read; none of them is looked at. Given
/sys itself, tar says of every file that it shrank, and ends with an error: such an
archive is read as well, but lacks the total memory, of which tar makes an empty
file, so the memory of the NUMA nodes together is taken for it.

In the picture "0/8" is a core with the CPUs 0 and 8 as its threads, and
"0/64 1/65 .. 63/127 (64 cores)" are cores whose numbers all grow by the same step.`,
		Example: `  podslice machine
  podslice machine --machine amd-epyc-9654-nps4
  podslice machine --machine "2 sockets, 2 nodes each, 16 cores, 2 threads, 256Gi" -o yaml
  podslice machine --machine sys.tgz -o json`,
		Args: byFlag("--machine"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := readMachine(cmd, from)
			if err != nil {
				return err
			}
			switch output {
			case "picture":
				return drawMachine(cmd.OutOrStdout(), m, newPainter(noColor(cmd), cmd.OutOrStdout()))
			case "json":
				_, err = cmd.OutOrStdout().Write(m.JSON())
			case "yaml":
				_, err = cmd.OutOrStdout().Write(m.YAML())
			default:
				err = fmt.Errorf("the format is %q: want picture, json or yaml", output)
			}
			return err
		},
	}
	machineFlag(cmd, &from, "the `machine` to show instead of this one")
	cmd.Flags().StringVarP(&output, "output", "o", "picture", "`format` of the output: picture, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"picture", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func drawMachine(out io.Writer, m machine.Machine, color painter) error {
	return picture.Draw(out, m, picture.Options{Emphasis: func(text string) string { return color.paint(bold, text) }})
}

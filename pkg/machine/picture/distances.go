// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/podslice/podslice/pkg/machine"
)

// columns is how many NUMA nodes have a column of their own.
const columns = 16

// distances draws the distances between the NUMA nodes: as a table, or each row in
// the words of the file format where a table would be too wide.
func (d *drawing) distances() {
	if len(d.Nodes) < 2 {
		return
	}
	d.WriteByte('\n')
	if d.Nodes[0].Distances == nil {
		d.line(0, "distances between the NUMA nodes are not told")
		return
	}
	const heading = "distances"
	if len(d.Nodes) > columns {
		d.line(0, d.emphasis(heading)+` between the NUMA nodes, in their order ("10x3" is three times 10)`)
		for _, n := range d.Nodes {
			d.line(2, fmt.Sprintf("NUMA node %-3d %s", n.ID, machine.Row(n.Distances)))
		}
		return
	}
	width := 0
	for _, n := range d.Nodes {
		width = max(width, len(strconv.Itoa(n.ID)), len(strconv.FormatUint(slices.Max(n.Distances), 10)))
	}
	row := fmt.Sprintf("%-14s", heading)
	for _, n := range d.Nodes {
		row += fmt.Sprintf(" %*d", width, n.ID)
	}
	d.line(0, d.emphasis(heading)+row[len(heading):])
	for _, n := range d.Nodes {
		row := fmt.Sprintf("%-12s", fmt.Sprintf("NUMA node %d", n.ID))
		for _, distance := range n.Distances {
			row += fmt.Sprintf(" %*d", width, distance)
		}
		d.line(2, row)
	}
}

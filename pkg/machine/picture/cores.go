// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/podslice/podslice/pkg/machine"
)

// written is how many cores of a run are written out; of more, only the first two
// and the last.
const written = 8

// coreName is a core by the numbers of its threads.
func coreName(core []machine.CPU) string {
	var b strings.Builder
	for i, c := range core {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(strconv.Itoa(c.ID))
	}
	return b.String()
}

// runs divides cores into runs in which the numbers of all threads grow by the
// same step from core to core.
func runs(cores [][]machine.CPU) (all [][][]machine.CPU) {
	for len(cores) > 0 {
		n := 1
		for n < len(cores) && continues(cores, n) {
			n++
		}
		all = append(all, cores[:n])
		cores = cores[n:]
	}
	return all
}

// continues is whether core n goes on as the first two began.
func continues(cores [][]machine.CPU, n int) bool {
	before, core := cores[n-1], cores[n]
	if len(core) != len(before) {
		return false
	}
	step := cores[1][0].ID - cores[0][0].ID
	for i := range core {
		if core[i].ID-before[i].ID != step {
			return false
		}
	}
	return true
}

// rows is lines with the cores of one place.
func (d *drawing) rows(cores [][]machine.CPU, width int) []string {
	if d.Mark != nil {
		return d.marks(cores, width)
	}
	return d.numbers(cores, width)
}

// numbers is lines with the cores by their numbers.
func (d *drawing) numbers(cores [][]machine.CPU, width int) []string {
	var words []string
	for _, run := range runs(cores) {
		if len(run) <= written {
			for _, core := range run {
				words = append(words, coreName(core))
			}
			continue
		}
		words = append(words, fmt.Sprintf("%s %s .. %s (%d cores)", coreName(run[0]), coreName(run[1]), coreName(run[len(run)-1]), len(run)))
	}
	var rows []string
	row := ""
	for _, word := range words {
		switch {
		case row == "":
			row = word
		case len(row)+1+len(word) > width:
			rows = append(rows, row)
			row = word
		default:
			row += " " + word
		}
	}
	return append(rows, row)
}

// marks is lines with which cores they have, and the marks of their CPUs.
func (d *drawing) marks(cores [][]machine.CPU, width int) []string {
	var rows []string
	for _, run := range runs(cores) {
		width := width - d.label - len(" ")
		fit := max(1, width/(d.cellWidth(run[0])+1))
		if fit > 8 && fit < len(run) {
			fit -= fit % 8
		}
		for len(run) > 0 {
			n := min(fit, len(run))
			name := coreName(run[0])
			switch {
			case n == 2:
				name += " " + coreName(run[1])
			case n > 2:
				name += " .. " + coreName(run[n-1])
			}
			row := fmt.Sprintf("%-*s ", d.label, name)
			for _, core := range run[:n] {
				row += " " + d.cell(core)
			}
			rows = append(rows, row)
			run = run[n:]
		}
	}
	return rows
}

func (d *drawing) cellWidth(core []machine.CPU) int {
	return len(core)*d.widest + len(d.separator())*(len(core)-1)
}

// separator stands between the marks of one core.
func (d *drawing) separator() string {
	if d.widest > 1 {
		return "/"
	}
	return ""
}

// cell is the marks of one core, filled up.
func (d *drawing) cell(core []machine.CPU) string {
	var marks []string
	missing := d.cellWidth(core) - len(d.separator())*(len(core)-1)
	for _, c := range core {
		mark := d.Mark(c.ID)
		missing -= utf8.RuneCountInString(mark)
		if d.Paint != nil {
			mark = d.Paint(c.ID, mark)
		}
		marks = append(marks, mark)
	}
	return strings.Join(marks, d.separator()) + strings.Repeat(" ", missing)
}

// SPDX-License-Identifier: Apache-2.0

package semantics

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const document = "../../docs/semantics.md"

// table is a table of the document.
type table struct {
	// line is the number of the line of its head.
	line   int
	head   []string
	rows   []row
	parsed bool
}

// row is one of its rows, each cell as its lines, without the marks of code.
type row struct {
	line  int
	cells [][]string
	in    *table
}

// readDocument reads all tables of the document.
func readDocument(t *testing.T) []*table {
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	var tables []*table
	var now *table
	for i, line := range strings.Split(string(data), "\n") {
		if !strings.HasPrefix(line, "|") {
			now = nil
			continue
		}
		require.Truef(t, strings.HasSuffix(line, "|") && len(line) > 2, "line %d: a row without an end", i+1)
		var cells [][]string
		for cell := range strings.SplitSeq(line[1:len(line)-1], "|") {
			var lines []string
			for text := range strings.SplitSeq(cell, "<br>") {
				lines = append(lines, strings.TrimSpace(strings.ReplaceAll(text, "`", "")))
			}
			cells = append(cells, lines)
		}
		switch {
		case now == nil:
			now = &table{line: i + 1}
			for _, cell := range cells {
				now.head = append(now.head, strings.Join(cell, " "))
			}
			tables = append(tables, now)
		case i+1 == now.line+1:
			for _, cell := range cells {
				require.Equalf(t, []string{"---"}, cell, "line %d: what follows a head", i+1)
			}
		default:
			require.Lenf(t, cells, len(now.head), "line %d: cells", i+1)
			now.rows = append(now.rows, row{i + 1, cells, now})
		}
	}
	return tables
}

// find returns the tables with that head, which are parsed by that.
func find(tables []*table, head ...string) (found []*table) {
	for _, table := range tables {
		if slices.Equal(table.head, head) {
			table.parsed = true
			found = append(found, table)
		}
	}
	return found
}

// cell is the lines of the cell in that column.
func (r row) cell(column string) []string {
	i := slices.Index(r.in.head, column)
	if i < 0 {
		return nil
	}
	return r.cells[i]
}

// one is a cell that has one line.
func (r row) one(t *testing.T, column string) string {
	lines := r.cell(column)
	require.Lenf(t, lines, 1, "line %d, column %s", r.line, column)
	return lines[0]
}

// setting is what a row holds for: a scope and a policy.
type setting struct{ scope, policy string }

var (
	policies = []string{"none", "best-effort", "restricted", "single-numa-node"}
	scopes   = []string{"pod", "container"}
)

// whole reports whether a pod with a budget is allocated as a whole.
func (s setting) whole() bool { return s.scope == "pod" && s.policy != "none" }

// parseSettings reads a list of "whole", "each" and "always", or such a word
// with one policy, as in "whole under restricted".
func parseSettings(text string) (list []setting, err error) {
	for part := range strings.SplitSeq(text, ",") {
		how, policy, some := strings.Cut(strings.TrimSpace(part), " under ")
		before := len(list)
		for _, scope := range scopes {
			for _, p := range policies {
				s := setting{scope, p}
				if some && p != policy {
					continue
				}
				if how == "always" || how == "whole" && s.whole() || how == "each" && !s.whole() {
					list = append(list, s)
				}
			}
		}
		if len(list) == before {
			return nil, fmt.Errorf("%q: want always, whole or each, and a policy", part)
		}
	}
	return list, nil
}

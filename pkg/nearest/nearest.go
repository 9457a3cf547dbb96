// SPDX-License-Identifier: Apache-2.0

// Package nearest finds the name that somebody probably meant.
package nearest

import (
	"iter"
	"slices"
	"strings"
)

// Name is the one of the names that is nearest to what was written, or "" if none
// is near: a quarter of the letters may be wrong. What the name only begins with is
// near, too.
func Name(written string, names iter.Seq[string]) string {
	if len(written) > 100 { // nobody meant that
		return ""
	}
	best, least := "", 1+len(written)/4
	for _, other := range slices.Sorted(names) {
		d := edits(written, other)
		if len(written) > 3 && strings.HasPrefix(other, written) {
			d = min(d, 1)
		}
		if d < least {
			best, least = other, d
		}
	}
	return best
}

// edits is how many letters must be put in, taken out or replaced to make one
// text of the other; upper and lower case are the same.
func edits(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

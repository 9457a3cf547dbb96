// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"fmt"
	"slices"
)

// Distances are the relative access costs between NUMA nodes, as the firmware
// states them (10 is local).
//
// The kernel prints a node's row by position: the first number is the distance
// to the lowest node ID that is online, the second to the next one, and so on.
// On a machine with the nodes 0 and 8 a row has two numbers, not nine.
type Distances struct {
	nodes    Set
	position [MaxNodes]int
	rows     [][]uint64 // both indices are positions
}

// NewDistances takes the IDs of all online nodes, in any order, and for each of
// them, at the same index, its row as the kernel prints it. Every row needs one
// number per node: a row that is missing, too short or too long leaves open
// which nodes its numbers mean, and is an error.
func NewDistances(ids []int, rows [][]uint64) (*Distances, error) {
	nodes, err := NewSet(ids...)
	if err != nil {
		return nil, err
	}
	if nodes.Size() != len(ids) {
		return nil, fmt.Errorf("NUMA nodes %v: an ID stands there twice", ids)
	}
	if len(rows) != len(ids) {
		return nil, fmt.Errorf("%d rows of distances for the %d NUMA nodes %s", len(rows), len(ids), nodes)
	}
	d := &Distances{nodes: nodes, rows: make([][]uint64, len(ids))}
	for position, id := range nodes.List() {
		d.position[id] = position
		row := rows[slices.Index(ids, id)]
		if len(row) != len(ids) {
			return nil, fmt.Errorf("NUMA node %d has %d distances %v, want %d, one for each of the nodes %s", id, len(row), row, len(ids), nodes)
		}
		d.rows[position] = slices.Clone(row)
	}
	return d, nil
}

// Nodes returns the nodes that have distances.
func (d *Distances) Nodes() Set { return d.nodes }

// Between returns the distance from one node to another; ok is false when one
// of them is unknown.
func (d *Distances) Between(from, to int) (distance uint64, ok bool) {
	if !d.nodes.Contains(from) || !d.nodes.Contains(to) {
		return 0, false
	}
	return d.rows[d.position[from]][d.position[to]], true
}

// Mean returns the mean distance over all ordered pairs of nodes in s, pairs of
// a node with itself included. Unknown nodes are left out; a set without known
// nodes has mean 0.
func (d *Distances) Mean(s Set) float64 {
	s = s.Intersection(d.nodes)
	if s.IsEmpty() {
		return 0
	}
	var sum float64
	for from := range s.All() {
		row := d.rows[d.position[from]]
		for to := range s.All() {
			sum += float64(row[d.position[to]])
		}
	}
	n := float64(s.Size())
	return sum / (n * n)
}

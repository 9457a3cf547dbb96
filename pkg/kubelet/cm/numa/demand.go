// SPDX-License-Identifier: Apache-2.0

package numa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Report is what a provider tells about a request that is refused.
type Report struct {
	// Cause is set when the request itself is at fault, and no machine could
	// serve it; there are no demands then.
	Cause string
	// Demands has an entry for each resource that is asked for.
	Demands []Demand
}

// Demand is one resource: what is asked for, and what the machine has.
type Demand struct {
	Resource string
	// Unit is "CPUs", or "" for bytes.
	Unit  string
	Asked uint64
	// Nodes are in ascending order. A provider may leave out nodes that never
	// have any of the resource; On puts them in.
	Nodes []Supply
	// Rule is a condition that amounts do not show, for example "one CPU must
	// stay in the node shared pool".
	Rule string
}

// Supply is what one NUMA node has of a resource.
type Supply struct {
	Node int
	// Free is what is left of Allocatable, which is what pods can have on an
	// idle machine. Reserved is kept from them.
	Free, Allocatable, Reserved uint64
	// Note is a condition of the node, for example "in use by single-node
	// allocations".
	Note string
}

// On returns the demand with an entry for every node of all.
func (d Demand) On(all Set) Demand {
	var known Set
	for _, s := range d.Nodes {
		known = known.Union(SetOf(s.Node))
	}
	d.Nodes = slices.Clone(d.Nodes)
	for id := range all.Difference(known).All() {
		d.Nodes = append(d.Nodes, Supply{Node: id})
	}
	slices.SortFunc(d.Nodes, func(a, b Supply) int { return cmp.Compare(a.Node, b.Node) })
	return d
}

// Of is what the nodes have together.
func (d Demand) Of(nodes Set) Supply {
	var sum Supply
	for _, s := range d.Nodes {
		if nodes.Contains(s.Node) {
			sum.Free, sum.Allocatable, sum.Reserved = sum.Free+s.Free, sum.Allocatable+s.Allocatable, sum.Reserved+s.Reserved
		}
	}
	return sum
}

// Up and Down round a quantity to one that Amount writes as it is.
func (d Demand) Up(quantity uint64) uint64 {
	if down := d.Down(quantity); down < quantity {
		return down + readable
	}
	return quantity
}

func (d Demand) Down(quantity uint64) uint64 {
	if d.Unit == "" && quantity >= readable {
		return quantity - quantity%readable
	}
	return quantity
}

// readable is what sizes are multiples of that people write.
const readable = 1 << 20

// Free and Allocatable are the sums over all nodes.
func (d Demand) Free() uint64 {
	return d.total(func(s Supply) uint64 { return s.Free })
}

func (d Demand) Allocatable() uint64 {
	return d.total(func(s Supply) uint64 { return s.Allocatable })
}

func (d Demand) total(of func(Supply) uint64) (sum uint64) {
	for _, s := range d.Nodes {
		sum += of(s)
	}
	return sum
}

// Amount writes a quantity of the resource for people: "6 CPUs", "12Gi".
func (d Demand) Amount(quantity uint64) string {
	switch {
	case d.Unit == "":
		return Bytes(quantity)
	case quantity == 1:
		return "1 " + strings.TrimSuffix(d.Unit, "s") // the only unit is "CPUs"
	}
	return fmt.Sprintf("%d %s", quantity, d.Unit)
}

func (d Demand) number(quantity uint64) string {
	if d.Unit == "" {
		return Bytes(quantity)
	}
	return fmt.Sprint(quantity)
}

// Bytes writes a size for people: with the largest binary unit that divides it
// or, what no one can read otherwise, in hundredths of a Gi.
func Bytes(size uint64) string {
	const mi, gi = 1 << 20, 1 << 30
	if size >= gi && size%mi != 0 {
		return fmt.Sprintf("%.2fGi", float64(size)/gi)
	}
	units := []string{"", "Ki", "Mi", "Gi", "Ti"}
	unit := 0
	for size > 0 && size%1024 == 0 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	return fmt.Sprintf("%d%s", size, units[unit])
}

// String is a part of a sentence: "asked for 6 CPUs; free: NUMA node 0: 4 of 10,
// 2 reserved; NUMA nodes 1-3: 0 of 12 each; 32 nodes without CPUs". Nodes that
// are alike are written once, those that have nothing are counted.
func (d Demand) String() string {
	parts := []string{"asked for " + d.Amount(d.Asked)}
	var without Set
	alike := map[Supply]Set{}
	var order []Supply
	for _, s := range d.Nodes {
		node := SetOf(s.Node)
		if s.Allocatable == 0 && s.Reserved == 0 {
			without = without.Union(node)
			continue
		}
		s.Node = 0
		if _, ok := alike[s]; !ok {
			order = append(order, s)
		}
		alike[s] = alike[s].Union(node)
	}
	for i, s := range order {
		text := fmt.Sprintf("%s: %s of %s", NodeList(alike[s]), d.number(s.Free), d.number(s.Allocatable))
		if alike[s].Size() > 1 {
			text += " each"
		}
		if s.Reserved > 0 {
			text += ", " + d.number(s.Reserved) + " reserved"
		}
		if s.Note != "" {
			text += ", " + s.Note
		}
		if i == 0 {
			text = "free: " + text
		}
		parts = append(parts, text)
	}
	if n := without.Size(); n > 0 {
		kind := cmp.Or(d.Unit, d.Resource)
		parts = append(parts, fmt.Sprintf("%d %s without %s", n, plural(n, "node"), kind))
	}
	if d.Rule != "" {
		parts = append(parts, d.Rule)
	}
	return strings.Join(parts, "; ")
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// NodeList names nodes in a sentence: "NUMA node 0", "NUMA nodes 0-1,4".
func NodeList(s Set) string { return "NUMA " + plural(s.Size(), "node") + " " + s.String() }

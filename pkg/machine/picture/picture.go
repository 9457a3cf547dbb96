// SPDX-License-Identifier: Apache-2.0

// Package picture draws a machine as text: sockets, NUMA nodes, caches and cores,
// with every CPU either by its number or by a mark that the caller gives it.
//
//	socket 0
//	  NUMA node 0: 64Gi
//	    cache 0 (32Mi)  0/8 1/9 2/10 3/11
//
// "0/8" is a core with the CPUs 0 and 8 as its threads. "0/64 1/65 .. 63/127 (64
// cores)" is a run of cores in which all numbers grow by the same step. With marks
// a line begins with the first and the last of its cores and goes on with one mark
// for each CPU, a core's together.
package picture

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/machine"
)

// Options is what is drawn besides the machine itself. The zero value draws the
// machine alone, every CPU by its number.
type Options struct {
	// Mark is what stands for a CPU, a letter or a few. If it is nil, CPUs are
	// shown by their numbers.
	Mark func(cpu int) string
	// Legend is the lines below the picture that say what the marks mean.
	Legend []string
	// Node is text at the end of a NUMA node's line, for example what is free
	// there. It may be nil.
	Node func(id int) string
	// Paint colours a mark as it is about to be written. It may be nil. Marks must
	// be told apart without it.
	Paint func(cpu int, mark string) string
	// Emphasis brings out a heading, for example in bold. It may be nil.
	Emphasis func(text string) string
}

// Width is how many columns a line has, unless the first line or a single core needs
// more.
const Width = 100

// Draw writes the picture of m.
func Draw(out io.Writer, m machine.Machine, o Options) error {
	d := drawing{Machine: m, Options: o, cores: map[machine.CoreID][]machine.CPU{}}
	for _, c := range m.CPUs {
		d.cores[c.CoreID()] = append(d.cores[c.CoreID()], c)
		if o.Mark != nil {
			d.widest = max(d.widest, utf8.RuneCountInString(o.Mark(c.ID)))
		}
	}
	for _, core := range d.cores {
		d.label = max(d.label, len(coreName(core)))
	}
	d.label = 2*d.label + len(" .. ")
	d.line(0, d.emphasis(oneLine(m.Name))+": "+d.counts())
	d.sockets()
	d.nodesWithoutCPUs()
	d.distances()
	if len(o.Legend) > 0 {
		d.WriteByte('\n')
	}
	for _, line := range o.Legend {
		d.line(0, line)
	}
	_, err := out.Write(d.Bytes())
	return err
}

type drawing struct {
	bytes.Buffer
	machine.Machine
	Options
	cores  map[machine.CoreID][]machine.CPU
	widest int // of the marks
	label  int // columns for which cores a line has

	sizes              map[int]uint64       // of caches
	nodesOf, socketsOf map[int]map[int]bool // the nodes of a cache, the sockets of a node
}

func (d *drawing) line(indent int, text string) {
	fmt.Fprintf(d, "%s%s\n", strings.Repeat(" ", indent), strings.TrimRight(text, " "))
}

func (d *drawing) emphasis(text string) string {
	if d.Emphasis == nil {
		return text
	}
	return d.Emphasis(text)
}

// oneLine is a name from elsewhere in which nothing can disturb the picture.
func oneLine(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, name)
}

// counts is how much of everything the machine has.
func (d *drawing) counts() string {
	threads, sockets := map[int]int{}, map[int]bool{}
	for _, core := range d.cores {
		threads[len(core)]++
		sockets[core[0].Socket] = true
	}
	cores := count(len(d.cores), "core")
	if len(threads) == 1 {
		for n := range threads {
			cores += " of " + count(n, "thread")
		}
	} else {
		var kinds []string
		for _, n := range slices.Backward(slices.Sorted(maps.Keys(threads))) {
			kinds = append(kinds, fmt.Sprintf("%d of %s", threads[n], count(n, "thread")))
		}
		cores += " (" + strings.Join(kinds, ", ") + ")"
	}
	caches := "no last-level cache told"
	if len(d.Caches) > 0 {
		caches = count(len(d.Caches), "last-level cache")
	}
	return strings.Join([]string{count(len(d.CPUs), "CPU"), cores, count(len(sockets), "socket"), count(len(d.Nodes), "NUMA node"),
		caches, memory(d.Machine.Memory())}, ", ")
}

func count[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func memory(size uint64) string {
	if size == 0 {
		return "no memory"
	}
	return numa.Bytes(size)
}

// place is where a core sits. Cores of one place are drawn together.
type place struct{ socket, node, cache int }

func (d *drawing) sockets() {
	at := map[place][][]machine.CPU{}
	for _, core := range d.cores {
		p := place{core[0].Socket, core[0].Node, core[0].Cache}
		at[p] = append(at[p], core)
	}
	places := slices.SortedFunc(maps.Keys(at), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.socket, b.socket), cmp.Compare(a.node, b.node), cmp.Compare(a.cache, b.cache))
	})
	d.index(places)
	headings, widest := map[place]string{}, 0
	for _, p := range places {
		headings[p] = d.cacheHeading(p)
		widest = max(widest, len(headings[p]))
	}
	rows, long := map[place][]string{}, false
	for _, p := range places {
		slices.SortFunc(at[p], func(a, b []machine.CPU) int { return cmp.Compare(a[0].ID, b[0].ID) })
		rows[p] = d.rows(at[p], Width-6-widest)
		long = long || d.Mark != nil && len(rows[p]) > 1
	}
	if long { // the headings of caches have lines of their own
		for _, p := range places {
			rows[p] = d.rows(at[p], Width-6)
		}
	}
	last := place{-1, -1, -1}
	for _, p := range places {
		if p.socket != last.socket {
			d.WriteByte('\n')
			d.line(0, d.emphasis(fmt.Sprintf("socket %d", p.socket)))
		}
		if p.socket != last.socket || p.node != last.node {
			d.line(2, d.nodeLine(p))
		}
		last = p
		heading := headings[p]
		if long {
			d.line(4, heading)
			heading, widest = "", 0
		}
		for _, row := range rows[p] {
			d.line(4, fmt.Sprintf("%-*s  %s", widest, heading, row))
			heading = ""
		}
	}
}

// index notes what is found from more than one place.
func (d *drawing) index(places []place) {
	d.sizes, d.nodesOf, d.socketsOf = map[int]uint64{}, map[int]map[int]bool{}, map[int]map[int]bool{}
	for _, c := range d.Caches {
		d.sizes[c.ID], d.nodesOf[c.ID] = c.Size, map[int]bool{}
	}
	for _, n := range d.Nodes {
		d.socketsOf[n.ID] = map[int]bool{}
	}
	for _, p := range places {
		d.socketsOf[p.node][p.socket] = true
		if p.cache != machine.NoCache {
			d.nodesOf[p.cache][p.node] = true
		}
	}
}

// cacheHeading names the last-level cache, and the other NUMA nodes that use it.
func (d *drawing) cacheHeading(p place) string {
	if p.cache == machine.NoCache {
		return "cores"
	}
	var about []string
	if size := d.sizes[p.cache]; size > 0 {
		about = append(about, numa.Bytes(size))
	}
	if others := except(d.nodesOf[p.cache], p.node); len(others) > 0 {
		about = append(about, "with "+numbered("node", others))
	}
	heading := fmt.Sprintf("cache %d", p.cache)
	if len(about) > 0 {
		heading += " (" + strings.Join(about, ", ") + ")"
	}
	return heading
}

func (d *drawing) nodeLine(p place) string {
	i, _ := slices.BinarySearchFunc(d.Nodes, p.node, func(n machine.Node, id int) int { return cmp.Compare(n.ID, id) })
	heading := d.emphasis(fmt.Sprintf("NUMA node %d", p.node))
	if others := except(d.socketsOf[p.node], p.socket); len(others) > 0 {
		heading += " (also of " + numbered("socket", others) + ")"
	}
	return heading + ": " + d.nodeText(d.Nodes[i])
}

func except(set map[int]bool, id int) (others []int) {
	for other := range set {
		if other != id {
			others = append(others, other)
		}
	}
	return others
}

// nodeText is what a NUMA node has besides CPUs.
func (d *drawing) nodeText(n machine.Node) string {
	parts := []string{memory(n.Memory)}
	for _, h := range n.HugePages {
		parts = append(parts, count(h.Pages, "hugepage")+" of "+numa.Bytes(h.PageSize))
	}
	if d.Node != nil {
		if text := d.Node(n.ID); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, ", ")
}

func numbered(what string, ids []int) string {
	set := cpuset.New(ids...)
	if set.Size() > 1 {
		what += "s"
	}
	return what + " " + set.String()
}

// nodesWithoutCPUs draws nodes that are alike, and follow one another, once.
func (d *drawing) nodesWithoutCPUs() {
	used := map[int]bool{}
	for _, c := range d.CPUs {
		used[c.Node] = true
	}
	var ids []int
	text := ""
	flush := func() {
		if len(ids) > 0 {
			d.line(2, d.emphasis("NUMA "+numbered("node", ids))+": "+text)
		}
		ids = nil
	}
	first := true
	for _, n := range d.Nodes {
		if used[n.ID] {
			continue
		}
		if first {
			d.WriteByte('\n')
			d.line(0, d.emphasis("without CPUs"))
			first = false
		}
		if is := d.nodeText(n); is != text {
			flush()
			text = is
		}
		ids = append(ids, n.ID)
	}
	flush()
}

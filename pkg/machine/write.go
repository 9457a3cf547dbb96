// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"
)

// YAML writes the machine down in the format of the package comment, one line for
// each node, group of cores and group of caches. Parse reads the same machine from
// it, if the machine is valid.
func (m Machine) YAML() []byte {
	var b strings.Builder
	m.write(func(name string, value string, list []string) {
		if list == nil {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
			return
		}
		fmt.Fprintf(&b, "%s:\n", name)
		for _, line := range list {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}, func(name string) string { return name })
	return []byte(b.String())
}

// JSON is like YAML.
func (m Machine) JSON() []byte {
	var parts []string
	m.write(func(name string, value string, list []string) {
		if list != nil {
			value = "[\n    " + strings.Join(list, ",\n    ") + "\n  ]"
		}
		parts = append(parts, fmt.Sprintf("  %s: %s", quoted(name), value))
	}, quoted)
	return []byte("{\n" + strings.Join(parts, ",\n") + "\n}\n")
}

// write calls field for each field in its order, with its value or, of a list, its
// elements. key is how a key of an element is written.
func (m Machine) write(field func(name, value string, list []string), key func(string) string) {
	// A plain scalar is the same in JSON only if it is a number.
	scalar := func(text string) string {
		if number.MatchString(text) || key("") == "" && plainScalar.MatchString(text) {
			return text
		}
		return quoted(text)
	}
	object := func(pairs ...string) string {
		var fields []string
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				fields = append(fields, key(pairs[i])+": "+pairs[i+1])
			}
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	// text is a scalar that is left out if it is empty.
	text := func(s string) string {
		if s == "" {
			return ""
		}
		return scalar(s)
	}
	field("name", quoted(m.Name), nil)
	if m.Description != "" {
		field("description", quoted(m.Description), nil)
	}
	if len(m.Sources) > 0 {
		var sources []string
		for _, s := range m.Sources {
			sources = append(sources, quoted(s))
		}
		field("sources", "", sources)
	}
	if m.Capacity != 0 {
		field("memory", scalar(quantity(m.Capacity)), nil)
	}
	var nodes, cpus, caches []string
	for _, n := range m.Nodes {
		var pages []string
		for _, h := range n.HugePages {
			pages = append(pages, key(quantity(h.PageSize)), strconv.FormatUint(h.Pages, 10))
		}
		huge := ""
		for i := 0; i < len(pages); i += 2 {
			huge += ", " + pages[i] + ": " + pages[i+1]
		}
		if huge != "" {
			huge = "{" + huge[2:] + "}"
		}
		nodes = append(nodes, object("id", strconv.Itoa(n.ID), "memory", scalar(quantity(n.Memory)), "hugepages", huge, "distances", text(Row(n.Distances))))
	}
	next := map[int]int{}
	for _, g := range groups(m.CPUs) {
		threads, siblings, cores, cache := "", "", "", ""
		if g.threads > 1 {
			threads, siblings = strconv.Itoa(g.threads), "apart"
			if g.adjacent {
				siblings = "adjacent"
			}
			siblings = scalar(siblings)
		}
		if !g.numberedFrom(next[g.socket]) {
			cores = scalar(cpuset.New(g.cores...).String())
		}
		next[g.socket] = max(next[g.socket], slices.Max(g.cores)+1)
		if g.cache != NoCache {
			cache = strconv.Itoa(g.cache)
		}
		cpus = append(cpus, object("cpus", scalar(cpuset.New(g.cpus...).String()), "threads", threads, "siblings", siblings, "cores", cores,
			"socket", strconv.Itoa(g.socket), "node", strconv.Itoa(g.node), "cache", cache))
	}
	sizes := map[uint64][]int{}
	var order []uint64
	for _, c := range m.Caches {
		if c.Size != 0 && sizes[c.Size] == nil {
			order = append(order, c.Size)
		}
		sizes[c.Size] = append(sizes[c.Size], c.ID)
	}
	for _, size := range order {
		caches = append(caches, object("ids", scalar(cpuset.New(sizes[size]...).String()), "size", scalar(quantity(size))))
	}
	field("nodes", "", nodes)
	field("cpus", "", cpus)
	if len(caches) > 0 {
		field("caches", "", caches)
	}
}

var (
	number      = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	plainScalar = regexp.MustCompile(`^([0-9]+-[0-9]+|[0-9]+[KMGTPE]i|[0-9]+( [0-9x]+)+|[a-z]+)$`)
)

// quoted is the text as JSON, which is a quoted scalar of YAML too.
func quoted(text string) string {
	out, _ := json.Marshal(text) // a string cannot fail
	return string(out)
}

func quantity(bytes uint64) string {
	return resource.NewQuantity(int64(bytes), resource.BinarySI).String()
}

// Row writes distances as the format does: "10 20x3" is "10 20 20 20".
func Row(distances []uint64) string {
	var fields []string
	for i := 0; i < len(distances); {
		end := i
		for end < len(distances) && distances[end] == distances[i] {
			end++
		}
		one := strconv.FormatUint(distances[i], 10)
		if end-i > 3 {
			one = fmt.Sprintf("%sx%d", one, end-i)
			i = end
		} else {
			i++
		}
		fields = append(fields, one)
	}
	return strings.Join(fields, " ")
}

// group is what one line of "cpus" says.
type group struct {
	socket, node, cache, threads int
	cores, cpus                  []int
	// adjacent and apart are whether the line can have these siblings.
	adjacent, apart bool
	// low and high are the lowest and the highest first, second, ... thread.
	low, high []int
}

// numberedFrom is whether the cores are those that a line without "cores" has.
func (g group) numberedFrom(next int) bool {
	for i, core := range g.cores {
		if core != next+i {
			return false
		}
	}
	return true
}

// groups divides the CPUs into as few lines as their order allows, in the order of
// their first CPUs.
func groups(cpus []CPU) []group {
	cores := map[CoreID][]CPU{}
	for _, c := range cpus {
		cores[c.CoreID()] = append(cores[c.CoreID()], c)
	}
	list := make([][]CPU, 0, len(cores))
	for _, threads := range cores {
		list = append(list, threads)
	}
	slices.SortFunc(list, func(a, b []CPU) int {
		return cmp.Or(cmp.Compare(a[0].Socket, b[0].Socket), cmp.Compare(a[0].Node, b[0].Node), cmp.Compare(a[0].Cache, b[0].Cache),
			cmp.Compare(len(a), len(b)), cmp.Compare(a[0].Core, b[0].Core))
	})
	var all []group
	for _, core := range list {
		if len(all) > 0 && all[len(all)-1].add(core) {
			continue
		}
		g := group{socket: core[0].Socket, node: core[0].Node, cache: core[0].Cache, threads: len(core), adjacent: true, apart: true}
		for _, c := range core {
			g.low, g.high, g.cpus = append(g.low, c.ID), append(g.high, c.ID), append(g.cpus, c.ID)
		}
		g.cores = []int{core[0].Core}
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b group) int { return cmp.Compare(slices.Min(a.cpus), slices.Min(b.cpus)) })
	return all
}

// add takes one more core, by ascending core ID, unless no line could say it.
func (g *group) add(core []CPU) bool {
	first := core[0]
	if first.Socket != g.socket || first.Node != g.node || first.Cache != g.cache || len(core) != g.threads {
		return false
	}
	adjacent := g.adjacent && first.ID > g.high[g.threads-1]
	apart := g.apart
	for i, c := range core {
		apart = apart && c.ID > g.high[i] && (i+1 == len(core) || c.ID < g.low[i+1])
	}
	if !adjacent && !apart {
		return false
	}
	g.adjacent, g.apart = adjacent, apart
	for i, c := range core {
		g.high[i] = max(g.high[i], c.ID)
		g.cpus = append(g.cpus, c.ID)
	}
	g.cores = append(g.cores, first.Core)
	return true
}

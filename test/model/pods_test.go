// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
)

// containerNames are the names that containers have.
var containerNames = []string{"i0", "i1", "i2", "a0", "a1", "a2"}

// part is a container before it is written down. Amounts of 0 are not stated.
type part struct {
	kind, name       string
	milli, memoryMiB int
	hugeMiB, devices int
	// more is how much higher the CPU limit is than the request.
	more int
}

func (p part) String() string {
	words := []string{p.kind, p.name}
	switch {
	case p.milli > 0 && p.more > 0:
		words = append(words, fmt.Sprintf("cpu=%s<%s", cores(p.milli), cores(p.milli+p.more)))
	case p.milli > 0:
		words = append(words, "cpu="+cores(p.milli))
	}
	return strings.Join(append(words, memoryWords(p.memoryMiB, p.hugeMiB, p.devices)...), " ")
}

func memoryWords(memoryMiB, hugeMiB, devices int) (words []string) {
	if memoryMiB > 0 {
		words = append(words, fmt.Sprintf("memory=%dMi", memoryMiB))
	}
	if hugeMiB > 0 {
		words = append(words, fmt.Sprintf("hugepages-2Mi=%dMi", hugeMiB))
	}
	if devices > 0 {
		words = append(words, fmt.Sprintf("example.com/gpu=%d", devices))
	}
	return words
}

func cores(milli int) string {
	if milli%1000 == 0 {
		return fmt.Sprint(milli / 1000)
	}
	return fmt.Sprintf("%dm", milli)
}

// podText is a pod of any shape, as scripts write it.
func (g *generator) podText(name string) string {
	var parts []part
	for i := range g.IntN(7) / 3 { // up to two, mostly none
		parts = append(parts, part{kind: pick(g, "init", "sidecar", "sidecar"), name: containerNames[i]})
	}
	for i := range 1 + g.IntN(5)/3 + g.IntN(6)/5 {
		parts = append(parts, part{kind: "app", name: containerNames[3+i]})
	}
	budget := g.IntN(3) > 0
	burstable := !budget && g.IntN(8) == 0
	for i := range parts {
		g.fill(&parts[i], budget, burstable)
	}
	head := name
	if budget {
		head += " " + g.budget(parts)
	}
	lines := []string{head}
	for _, p := range parts {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// fill gives a container its resources.
func (g *generator) fill(p *part, budget, burstable bool) {
	if g.devices > 0 && p.kind == "app" && g.IntN(3) == 0 {
		p.devices = 1 + g.IntN(2)
	}
	if burstable && g.IntN(3) == 0 {
		return
	}
	if budget {
		switch g.IntN(8) {
		case 0, 1, 2: // shares
			return
		case 3:
			p.memoryMiB = 64 * (1 + g.IntN(4))
			return
		}
	}
	p.milli = 1000 * g.cpuCount()
	p.memoryMiB = g.memoryCount()
	switch g.IntN(12) {
	case 0:
		p.milli -= 500
	case 1:
		if budget || burstable {
			p.more = 1000
		}
	}
	if g.hw.hugepages && g.IntN(3) == 0 {
		p.hugeMiB = 2 << g.IntN(7)
	}
}

// cpuCount is mostly little, sometimes as much as a node or the machine has.
func (g *generator) cpuCount() int {
	switch all := g.hw.cpus.Size(); g.IntN(16) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		return 1
	case 8, 9, 10:
		return 1 + g.IntN(3)
	case 11, 12, 13, 14:
		return 1 + g.IntN(g.hw.perNode)
	default:
		return 1 + g.IntN(all)
	}
}

func (g *generator) memoryCount() int {
	switch g.IntN(16) {
	default:
		return 64 * (1 + g.IntN(4))
	case 2, 3, 4, 5:
		return max(64, g.hw.memoryMiB/(1+g.IntN(4)))
	case 0:
		return g.hw.memoryMiB * (1 + g.IntN(len(g.hw.nodes)))
	case 1:
		return g.hw.memoryMiB - 1024
	}
}

// budget is at least what the API asks for: what runs side by side, and the highest
// limit of a container.
func (g *generator) budget(parts []part) string {
	need := peak(parts, func(p part) int { return p.milli })
	memory := peak(parts, func(p part) int { return p.memoryMiB })
	huge := peak(parts, func(p part) int { return p.hugeMiB })
	for _, p := range parts {
		need = max(need, p.milli+p.more)
	}
	milli := (need+999)/1000*1000 + 1000*(g.IntN(6)/2)
	if milli == 0 {
		milli = 1000 * (1 + g.IntN(4))
	}
	if g.IntN(12) == 0 {
		milli += 500
	}
	if g.IntN(4) > 0 || memory == 0 {
		memory += 64 * (1 + g.IntN(8))
	}
	if g.hw.hugepages && g.IntN(8) == 0 {
		huge += 2 << g.IntN(4)
	}
	words := []string{"cpu=" + cores(milli)}
	if g.IntN(16) == 0 {
		words[0] = fmt.Sprintf("cpu=%s<%s", cores(milli), cores(milli+1000)) // not Guaranteed
	}
	return strings.Join(append(words, memoryWords(memory, huge, 0)...), " ")
}

func peak(parts []part, of func(part) int) int {
	sidecars, most, apps := 0, 0, 0
	for _, p := range parts {
		switch p.kind {
		case "init":
			most = max(most, sidecars+of(p))
		case "sidecar":
			sidecars += of(p)
		default:
			apps += of(p)
		}
	}
	return max(most, sidecars+apps)
}

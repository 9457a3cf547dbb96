// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
	"github.com/podslice/podslice/test/simnode"
)

// generator makes up what happens on one node. It looks at the node to find out
// which pods there are, but what it makes is text, and can be replayed.
type generator struct {
	*rand.Rand
	hw      hardware
	left    int // events to come
	pods    int // pods so far
	devices int
	set     config
	good    config // with which a kubelet has started last
	offline cpuset.CPUSet
	broken  bool
}

// config is the configuration of a kubelet, as arguments.
type config struct {
	policy, scope, gates, cpuPolicy, memoryPolicy string
	reserved                                      string
	options                                       []string
	topology                                      string
}

func newGenerator(seed uint64, events int) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0x6d6f64656c)), left: events}
}

// next is the next event on the node, which is nil before the first.
func (g *generator) next(w *world) (event, bool) {
	if w.node() == nil {
		return g.begin(), true
	}
	if g.left--; g.left < 0 {
		return event{}, false
	}
	n := w.node()
	if w.runner.Down {
		g.set = g.good
		return event{line: g.restart("")}, true
	}
	g.good = g.set
	pods := n.Active()
	if len(pods) == 0 || len(pods) < 12 && g.IntN(100) < 40-5*len(pods) {
		return g.admit(w), true
	}
	pod := pick(g, pods...)
	switch g.IntN(20) {
	case 0, 1, 2, 3:
		return event{line: "start " + pod.Name}, true
	case 4, 5:
		return event{line: "start " + pod.Name + " " + g.container(pod)}, true
	case 6:
		return event{line: "restart-containers " + pod.Name}, true
	case 7, 8, 9:
		return event{line: "remove " + pod.Name}, true
	case 10, 11:
		return event{line: "vanish " + pod.Name}, true
	case 12:
		return event{line: "wait " + pick(g, "1s", "20s", "20s", "60s")}, true
	case 13, 14:
		if slices.Contains(w.terminating, pod.Name) {
			return event{line: "remove " + pod.Name}, true
		}
		return g.resize(pod), true
	case 15, 16:
		return event{line: g.restart("")}, true
	case 17, 18:
		return event{line: g.restart(g.change(n))}, true
	default:
		if g.broken || g.IntN(8) == 0 {
			g.broken = !g.broken
			line := "break"
			if g.broken {
				line += pick(g, " cpu", " memory", " cpu memory")
			}
			return event{line: line}, true
		}
		return g.admit(w), true
	}
}

func (g *generator) admit(w *world) event {
	g.pods++
	text := g.podText(fmt.Sprintf("p%d", g.pods))
	if g.IntN(12) == 0 && !w.broken() {
		how := pick(g, "none", "0", "1", "all")
		return event{pick(g, "crash cpu="+how, "crash memory="+how, "crash memory=none", "crash cpu="+how+" memory=none"), text}
	}
	return event{"admit", text}
}

func (g *generator) container(pod *v1.Pod) string {
	var names []string
	for c := range simnode.Containers(pod) {
		names = append(names, c.Name)
	}
	return pick(g, names...)
}

// resize asks for other amounts, or for the same.
func (g *generator) resize(pod *v1.Pod) event {
	e := event{line: "resize " + pod.Name}
	if g.IntN(3) == 0 {
		return e
	}
	of := pick(g, v1.ResourceCPU, v1.ResourceCPU, v1.ResourceMemory)
	head := []string{pod.Name}
	if pod.Spec.Resources != nil {
		head = append(head, words(*pod.Spec.Resources, g.IntN(2), of)...)
	}
	lines := []string{strings.Join(head, " ")}
	init := standardInit(pod)
	for i, c := range append(slices.Clone(pod.Spec.InitContainers), pod.Spec.Containers...) {
		kind := "app"
		if i < len(pod.Spec.InitContainers) {
			kind = "sidecar"
			if init[c.Name] {
				kind = "init"
			}
		}
		lines = append(lines, strings.Join(append([]string{kind, c.Name}, words(c.Resources, g.IntN(3)/2, of)...), " "))
	}
	e.input = strings.Join(lines, "\n")
	return e
}

// words writes resources, with so many CPUs more, or as much more of memory.
func words(r v1.ResourceRequirements, more int, of v1.ResourceName) (list []string) {
	names := map[v1.ResourceName]bool{}
	for name := range r.Requests {
		names[name] = true
	}
	for name := range r.Limits {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		request, limit := r.Requests[name], r.Limits[name]
		if name == of && more > 0 {
			amount := resource.MustParse(fmt.Sprint(more))
			if name == v1.ResourceMemory {
				amount = resource.MustParse(fmt.Sprintf("%dMi", 64*more))
			}
			request.Add(amount)
			limit.Add(amount)
		}
		text := request.String()
		if request.Cmp(limit) != 0 {
			text += "<" + limit.String()
		}
		list = append(list, string(name)+"="+text)
	}
	return list
}

// begin is the node itself.
func (g *generator) begin() event {
	g.hw = g.hardware()
	g.set = config{
		policy: pick(g, "none", "best-effort", "restricted", "restricted", "single-numa-node", "single-numa-node"),
		scope:  pick(g, "pod", "pod", "container"),
		gates:  pick(g, "on", "on", "on", "off"),

		cpuPolicy: "static", memoryPolicy: "Static",
	}
	g.reserve()
	g.options()
	line := "node"
	if g.hw.args != "" {
		line += " " + g.hw.args
	}
	line += g.arguments() + " period=10s"
	if g.IntN(4) == 0 {
		var devices []string
		for range 1 + g.IntN(4) {
			g.devices++
			devices = append(devices, fmt.Sprintf("example.com/gpu@%d", pick(g, g.hw.nodes...)))
		}
		line += " device=(" + strings.Join(devices, ",") + ")"
	}
	g.good = g.set
	return event{line, g.hw.written}
}

func (g *generator) reserve() {
	online := g.hw.cpus.Difference(g.offline).List()
	most := min(3, len(online)-1)
	count := 1 + g.IntN(max(1, most))
	if g.IntN(4) == 0 {
		g.set.reserved = fmt.Sprintf("reserve=%d", count)
		return
	}
	g.Shuffle(len(online), func(i, j int) { online[i], online[j] = online[j], online[i] })
	g.set.reserved = fmt.Sprintf("reserved=(%s)", cpuset.New(online[:min(count, len(online))]...))
}

func (g *generator) options() {
	g.set.options, g.set.topology = nil, ""
	switch g.IntN(12) {
	case 0, 1:
		g.set.options = []string{scenario.FullPCPUs}
	case 2, 3:
		g.set.options = []string{scenario.Strict}
	case 4:
		g.set.options = []string{scenario.FullPCPUs, scenario.Strict}
	case 5:
		g.set.options = []string{pick(g, scenario.AcrossNUMA, scenario.AcrossCores, scenario.Uncore, scenario.BySocket)}
		if g.set.policy == "single-numa-node" && g.set.options[0] == scenario.BySocket {
			g.set.options = nil // not together
		}
	}
	switch g.IntN(8) {
	case 0:
		g.set.topology = " prefer-closest"
	case 1:
		g.set.topology = " tie-break=least-allocated"
	case 2:
		g.set.topology = " locality"
	}
}

// arguments are all of the configuration.
func (g *generator) arguments() string {
	s := g.set
	text := fmt.Sprintf(" %s policy=%s scope=%s gates=%s cpu-policy=%s memory-policy=%s", s.reserved, s.policy, s.scope, s.gates, s.cpuPolicy, s.memoryPolicy)
	if s.cpuPolicy != "none" && len(s.options) > 0 {
		text += " option=(" + strings.Join(s.options, ",") + ")"
	}
	return text + s.topology
}

func (g *generator) restart(more string) string { return "restart plain" + g.arguments() + more }

// change changes the configuration, or what is around the kubelet, and returns what
// else the restart needs.
func (g *generator) change(n *simnode.Node) string {
	switch g.IntN(16) {
	case 0, 1:
		g.set.gates = pick(g, "on", "off")
	case 2, 3:
		g.set.scope = pick(g, "pod", "container")
	case 4, 5:
		g.set.policy = pick(g, "none", "best-effort", "restricted", "single-numa-node")
		if g.set.policy == "single-numa-node" {
			g.set.options = slices.DeleteFunc(g.set.options, func(o string) bool { return o == scenario.BySocket })
		}
	case 6, 7, 14, 15:
		if g.IntN(2) == 0 {
			g.set.memoryPolicy = pick(g, "None", "Static", "Static")
		} else {
			g.set.cpuPolicy = pick(g, "none", "static", "static")
		}
	case 8:
		g.options()
	case 9:
		g.reserve()
	case 10:
		var pods []string
		for _, pod := range n.Active() {
			if g.IntN(2) == 0 {
				pods = append(pods, pod.Name)
			}
		}
		if len(pods) > 0 {
			return pick(g, " lost=(", " terminating=(") + strings.Join(pods, ",") + ")"
		}
	default:
		all := g.hw.cpus.List()
		g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		g.offline = cpuset.New(all[:g.IntN(1+min(3, len(all)/2))]...)
		g.reserve()
		return fmt.Sprintf(" offline=(%s)", g.offline)
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0

package semantics

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// This file says the rules of docs/semantics.md once more, and shares no code
// with what it checks. It knows sizes and no places: the machine of TestShapes
// has room for every pod, and each of a pod's nodes has room for every slice.

// kinds are those of memory, in the order in which they are written.
var kinds = []string{"memory", "hugepages-1Gi", "hugepages-2Mi"}

// amounts are CPUs in thousandths, and bytes by kind of memory.
type amounts struct {
	cpu    int64
	memory map[string]int64
}

// container and shape are a pod as far as the rules look at it.
type container struct {
	kind string // "init", "sidecar" or "app"
	text string
	asks amounts
	// guaranteed: CPU and memory are requested, and are the limits as well.
	guaranteed bool
}

type shape struct {
	budget     string // as it is written; empty without one
	asks       amounts
	guaranteed bool // the budget, as for a container
	wide       bool // it needs two NUMA nodes
	containers []container
}

func (s shape) text() (lines []string) {
	lines = []string{s.budget}
	if s.budget == "" {
		lines[0] = "no budget"
	}
	for i, c := range s.containers {
		lines = append(lines, fmt.Sprintf("%s %s%d %s", c.kind, c.kind, i, c.text))
	}
	return lines
}

// expect is what the pod is given, or the reason and the sentence with which it
// is refused.
func (s shape) expect(on setting, gate bool) (given outcome, reason, sentence string) {
	managed := s.guaranteed && gate
	if s.budget == "" {
		managed = !slices.ContainsFunc(s.containers, func(c container) bool { return !c.guaranteed })
	}
	given = outcome{cpus: []string{"-"}, memory: []string{"-"}}
	switch {
	case !managed:
		for range s.containers {
			given.add("host", "host")
		}
	case s.budget != "" && on.whole():
		return s.expectWhole(on.policy)
	default:
		s.expectEach(&given)
	}
	return given, "", ""
}

func (o *outcome) add(cpus, memory string) {
	o.cpus, o.memory = append(o.cpus, cpus), append(o.memory, memory)
}

// slice is what the container has for itself of the resource.
func (c container) slice(resource string) int64 {
	switch {
	case !c.guaranteed:
		return 0
	case resource != "cpu":
		return c.asks.memory[resource]
	case c.asks.cpu%1000 != 0:
		return 0
	}
	return c.asks.cpu / 1000
}

// expectEach: every Guaranteed container for itself. The memory of a standard
// init container is the later containers' again, and what is left stays its own.
func (s shape) expectEach(given *outcome) {
	var has []map[string]int64
	for i, c := range s.containers {
		mine := map[string]int64{}
		for _, kind := range kinds {
			mine[kind] = c.slice(kind)
			again := mine[kind]
			for j := range i {
				if s.containers[j].kind == "init" {
					taken := min(again, has[j][kind])
					has[j][kind] -= taken
					again -= taken
				}
			}
		}
		has = append(has, mine)
	}
	for i, c := range s.containers {
		cpus, memory := "host", "host"
		if n := c.slice("cpu"); n > 0 {
			cpus = fmt.Sprintf("container %d", n)
		}
		if c.guaranteed {
			memory = "container" + list(has[i], func(kind string) bool { return c.slice(kind) > 0 })
		}
		given.add(cpus, memory)
	}
}

// expectWhole: the budget, carved.
func (s shape) expectWhole(policy string) (given outcome, reason, sentence string) {
	budget := map[string]int64{}
	for _, kind := range kinds {
		budget[kind] = s.asks.memory[kind]
		if kind != "memory" && budget[kind] == 0 {
			budget[kind] = s.largestPhase(kind)
		}
	}
	resources := kinds
	cpus := s.asks.cpu%1000 == 0
	if cpus {
		budget["cpu"] = s.asks.cpu / 1000
		resources = append([]string{"cpu"}, kinds...)
	}
	for _, resource := range resources {
		if reason, sentence := s.fault(resource, budget[resource]); sentence != "" {
			if policy == "best-effort" {
				if reason == lifecycle.UnexpectedAdmissionError {
					sentence = "Allocate failed due to " + sentence
				}
				return outcome{}, reason, sentence
			}
			return outcome{}, "TopologyAffinityError", wholeRefused + sentence
		}
	}
	if s.wide && policy == "single-numa-node" {
		resource := "memory"
		if cpus {
			resource = "cpu"
		}
		return outcome{}, "TopologyAffinityError", wholeRefused + resource + ": not available on any single NUMA node"
	}
	given.add("-", list(budget, func(kind string) bool { return budget[kind] > 0 })[1:])
	if cpus {
		given.cpus[0] = fmt.Sprint(budget["cpu"])
	}
	for i, c := range s.containers {
		onCPUs, memory := "host", ""
		switch n := c.slice("cpu"); {
		case !cpus:
		case n > 0:
			onCPUs = fmt.Sprintf("container %d", n)
		default:
			onCPUs = fmt.Sprintf("pod %d", s.pool(i, "cpu", budget["cpu"]))
		}
		if c.guaranteed {
			memory = "container" + list(c.asks.memory, func(kind string) bool { return c.slice(kind) > 0 })
		} else {
			pool := map[string]int64{}
			for _, kind := range kinds {
				pool[kind] = s.pool(i, kind, budget[kind])
			}
			memory = "pod" + list(pool, func(kind string) bool { return pool[kind] > 0 })
		}
		given.add(onCPUs, memory)
	}
	return given, "", ""
}

const wholeRefused = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager: "

// pool is what a container without a slice runs on: a standard init container on
// all that sidecars before it have left, others on what all slices have left.
func (s shape) pool(at int, resource string, budget int64) int64 {
	for i, c := range s.containers {
		before := c.kind == "sidecar" && i < at
		if before || s.containers[at].kind != "init" && c.kind != "init" {
			budget -= c.slice(resource)
		}
	}
	return budget
}

// fault is what is wrong with the pod itself: a container, the first in the order
// of the spec, for which the budget has nothing.
func (s shape) fault(resource string, budget int64) (reason, sentence string) {
	what := resource
	left := "memory"
	if resource == "cpu" {
		what, left = "cpus", "cpus"
	}
	shares := func(c container) bool {
		if resource == "cpu" {
			return c.slice("cpu") == 0
		}
		return !c.guaranteed && (resource == "memory" || c.asks.memory[resource] > 0)
	}
	shared := slices.ContainsFunc(s.containers, func(c container) bool { return c.kind != "init" && shares(c) })
	empty := fmt.Sprintf("pod rejected, sum of exclusive container %s requests equals pod budget, leaving no %s for shared containers", resource, left)
	over := fmt.Sprintf("pod rejected, exclusive container %s requests exceed the pod budget", resource)
	var sidecars, running int64
	for _, c := range s.containers {
		mine := c.slice(resource)
		switch {
		case c.kind == "init" && mine > budget-sidecars:
			return lifecycle.UnexpectedAdmissionError, over
		case c.kind == "init" && shares(c) && sidecars == budget:
			return "EmptyPodSharedPoolError", fmt.Sprintf("pod rejected, pod has shared init containers but no %s available for them", what)
		case c.kind == "init":
			continue
		}
		running += mine
		if c.kind == "sidecar" {
			sidecars += mine
		}
		if running > budget && shared {
			return "EmptyPodSharedPoolError", empty
		}
		if running > budget {
			return lifecycle.UnexpectedAdmissionError, over
		}
	}
	if shared && running == budget {
		return "EmptyPodSharedPoolError", empty
	}
	return "", ""
}

// largestPhase is the most that containers ask for at the same time.
func (s shape) largestPhase(kind string) (most int64) {
	var sidecars, running int64
	for _, c := range s.containers {
		asks := c.asks.memory[kind]
		switch c.kind {
		case "init":
			most = max(most, sidecars+asks)
			continue
		case "sidecar":
			sidecars += asks
		}
		running += asks
	}
	return max(most, running)
}

// list writes the kinds that are there.
func list(sizes map[string]int64, there func(kind string) bool) (text string) {
	for _, kind := range kinds {
		if there(kind) {
			amount := resource.NewQuantity(sizes[kind], resource.BinarySI).String()
			if kind != "memory" {
				amount = kind + "=" + amount
			}
			text += " " + amount
		}
	}
	return text
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
)

// The rules that refuse an allocation. The texts are the kubelet's own; tools
// and tests look for them.
var (
	// ErrNoRoom: no set of NUMA nodes has room, and none was asked for.
	ErrNoRoom = errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
	// ErrNoPreferred: a preferred set was promised, and only wider ones have
	// room.
	ErrNoPreferred = errors.New("[memorymanager] failed to find the default preferred hint")
	// ErrNoExtension: the set asked for is too small, and no set that contains
	// it has room.
	ErrNoExtension = errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
	// ErrNoPreferredExtension: the same, and a preferred set was promised.
	ErrNoPreferredExtension = errors.New("[memorymanager] failed to find the extended preferred hint")
	// ErrGroup: the set asked for has enough free, but others count on it.
	ErrGroup = errors.New("[memorymanager] preferred hint violates NUMA node allocation")
)

// Refusal says why a request cannot be allocated. It wraps the rule that
// refused.
type Refusal struct {
	Rule error
	// Request is what was asked, Affinity where.
	Request  podplan.Memory
	Affinity numa.Hint
	// Facts is what each NUMA node had, as Host.Describe writes it.
	Facts string
}

func (e *Refusal) Error() string {
	where := "any NUMA nodes"
	if !e.Affinity.Any {
		where = "NUMA nodes " + e.Affinity.Nodes.String()
	}
	return fmt.Sprintf("%v: asked for %s on %s; %s", e.Rule, amounts(e.Request), where, e.Facts)
}

func (e *Refusal) Unwrap() error { return e.Rule }

// refuse makes a Refusal. Nowhere is set when the request has no room on any set
// of nodes.
func (h Host) refuse(rule error, request podplan.Memory, affinity numa.Hint, nowhere bool) error {
	facts := h.Describe(request)
	if nowhere && h.unused(request, h.machine.ids) {
		facts += "; " + promised
	}
	return &Refusal{Rule: rule, Request: request, Affinity: affinity, Facts: facts}
}

// promised explains why there is no room although enough is free.
const promised = "together that is enough, but an allocation that may lie on any of them could take what others were promised"

// Describe says what each NUMA node has free of the resources in the request,
// out of what can be allocated there, and how the node is in use:
// "NUMA node 0: memory 3Gi free of 14Gi, in use by single-node allocations".
func (h Host) Describe(request podplan.Memory) string {
	var parts []string
	for _, name := range sortedNames(request) {
		if h.capable([]string{name}).IsEmpty() {
			parts = append(parts, "no NUMA node has "+name)
		}
	}
	var without numa.Set
	for state := range h.Nodes() {
		if !overlap(h.capable(sortedNames(request)), numa.SetOf(state.ID)) {
			without = without.Union(numa.SetOf(state.ID))
			continue
		}
		var amounts []string
		for _, name := range sortedNames(request) {
			capacity, ok := h.machine.Capacity(state.ID, name)
			if !ok {
				amounts = append(amounts, "no "+name)
				continue
			}
			amounts = append(amounts, fmt.Sprintf("%s %s free of %s", name, numa.Bytes(h.free(state.ID, name)), numa.Bytes(capacity.Allocatable)))
		}
		if !h.machine.withCPUs.Contains(state.ID) {
			amounts = append(amounts, "no CPUs")
		}
		amounts = append(amounts, h.uses(state.ID)...)
		parts = append(parts, fmt.Sprintf("NUMA node %d: %s", state.ID, strings.Join(amounts, ", ")))
	}
	if !without.IsEmpty() {
		parts = append(parts, fmt.Sprintf("NUMA nodes %s: none for pods", without))
	}
	if h.machine.ids.IsEmpty() {
		return "the machine has no NUMA nodes"
	}
	return strings.Join(parts, "; ")
}

// uses says by what a node is in use: by allocations that lie on it alone, by
// some that may lie on others as well.
func (h Host) uses(node int) []string {
	single := false
	var sets []string
	for _, pod := range h.records.All() {
		for b := range pod.Charges() {
			switch {
			case !b.Nodes.Contains(node):
			case b.Nodes.Size() == 1:
				single = true
			case !slices.Contains(sets, b.Nodes.String()):
				sets = append(sets, b.Nodes.String())
			}
		}
	}
	var uses []string
	if single {
		uses = append(uses, "in use by single-node allocations")
	}
	if len(sets) > 0 {
		slices.Sort(sets)
		uses = append(uses, "in use by allocations on NUMA nodes "+strings.Join(sets, " and "))
	}
	return uses
}

// SPDX-License-Identifier: Apache-2.0

package memplan

import (
	"errors"
	"fmt"
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
	// ErrGroup: a node of the set asked for is used by single-node allocations
	// or by another group.
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

func (h Host) refuse(rule error, request podplan.Memory, affinity numa.Hint) error {
	return &Refusal{Rule: rule, Request: request, Affinity: affinity, Facts: h.Describe(request)}
}

// Describe says what each NUMA node has free of the resources in the request,
// out of what can be allocated there, and how the node is in use:
// "NUMA node 0: memory 3Gi free of 14Gi, in use by single-node allocations".
func (h Host) Describe(request podplan.Memory) string {
	var nodes []string
	for state := range h.Nodes() {
		var parts []string
		for _, name := range sortedNames(request) {
			capacity, ok := h.machine.Capacity(state.ID, name)
			if !ok {
				parts = append(parts, "no "+name)
				continue
			}
			parts = append(parts, fmt.Sprintf("%s %s free of %s", name, Bytes(h.free(state.ID, name)), Bytes(capacity.Allocatable)))
		}
		switch {
		case state.Group.Size() > 1:
			parts = append(parts, "in the group of NUMA nodes "+state.Group.String())
		case state.Assignments > 0:
			parts = append(parts, "in use by single-node allocations")
		}
		nodes = append(nodes, fmt.Sprintf("NUMA node %d: %s", state.ID, strings.Join(parts, ", ")))
	}
	if len(nodes) == 0 {
		return "the machine has no NUMA nodes"
	}
	return strings.Join(nodes, "; ")
}

// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"
)

// Settings are the parts of a KubeletConfiguration that matter to placement.
type Settings struct {
	// Reserved are the reserved CPUs. When it is empty, ReservedCount CPUs are
	// reserved and the manager chooses which.
	Reserved      []int
	ReservedCount int
	// Options are the names of the static policy's options that are on.
	Options []string
	// PodLevel is the gate PodLevelResourceManagers.
	PodLevel bool
	// Policy and Scope are the topology manager's.
	Policy, Scope string
}

// ReservedSet is the explicit set, if there is one.
func (s Settings) ReservedSet() cpuset.CPUSet { return cpuset.New(s.Reserved...) }

// Has reports whether an option is on.
func (s Settings) Has(option string) bool { return slices.Contains(s.Options, option) }

// Affinity is where the topology manager's decision for a pod comes from.
type Affinity string

const (
	// FromHints takes the best hint of the manager under test, as if it were
	// the only one.
	FromHints Affinity = "hints"
	// Anywhere is what is decided when nobody has a preference.
	Anywhere Affinity = "any"
	// FromMasks takes the event's masks, as if other managers had decided.
	FromMasks Affinity = "masks"
)

// Event is something that happens on the node.
type Event struct {
	// Admit is the pod that arrives, or nil.
	Admit *Pod
	// Affinity says how the pod's affinity is decided. Masks has a set of NUMA
	// nodes, as bits, for each container.
	Affinity Affinity
	Masks    []uint64
	// Remove is the name of a pod that ends. It may have been refused.
	Remove string
	// Restart restarts the kubelet.
	Restart bool
}

// Scenario is a node and what happens on it.
type Scenario struct {
	Seed     uint64
	Machine  Machine
	Settings Settings
	Events   []Event
}

// String is the scenario as a script.
func (s *Scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\nmachine: %s\n%s\n", s.Seed, s.Machine.Shape, s.Machine)
	set := s.Settings
	fmt.Fprintf(&b, "kubelet: policy %s, scope %s, pod level %t, options [%s], ", set.Policy, set.Scope, set.PodLevel, strings.Join(set.Options, " "))
	if len(set.Reserved) > 0 {
		fmt.Fprintf(&b, "reserved %s\n", set.ReservedSet())
	} else {
		fmt.Fprintf(&b, "reserved: any %d\n", set.ReservedCount)
	}
	for i, e := range s.Events {
		fmt.Fprintf(&b, "%2d %s\n", i, e)
	}
	return b.String()
}

func (e Event) String() string {
	switch {
	case e.Admit != nil && e.Affinity == FromMasks:
		masks := make([]string, len(e.Masks))
		for i, m := range e.Masks {
			masks[i] = fmt.Sprint(Bits(m))
		}
		return fmt.Sprintf("admit %s  affinity %s", e.Admit, strings.Join(masks, " "))
	case e.Admit != nil:
		return fmt.Sprintf("admit %s  affinity %s", e.Admit, e.Affinity)
	case e.Restart:
		return "restart"
	default:
		return "remove " + e.Remove
	}
}

// Bits lists the bits that are set.
func Bits(mask uint64) []int {
	bits := []int{}
	for i := range 64 {
		if mask>>i&1 == 1 {
			bits = append(bits, i)
		}
	}
	return bits
}

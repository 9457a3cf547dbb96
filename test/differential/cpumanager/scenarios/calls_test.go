// SPDX-License-Identifier: Apache-2.0

package scenarios

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/podslice/podslice/test/differential/scenario"
)

// op is something that the kubelet does with its CPU manager.
type op string

const (
	opStart       op = "start"        // a new manager on the state file, with Active pods running
	opArrive      op = "arrive"       // the pod becomes active
	opPodHints    op = "pod hints"    // GetPodTopologyHints
	opHints       op = "hints"        // GetTopologyHints
	opAllocatePod op = "allocate pod" // AllocatePod
	opAllocate    op = "allocate"     // Allocate
	opAdmitted    op = "admitted"     // the pod's containers are started
	opDrop        op = "drop"         // the pod is no longer active, and a later call finds that
)

// call is one call of a manager with all that was decided for it.
type call struct {
	Op             op
	Event          int
	Pod, Container string   `json:",omitempty"`
	Active         []string `json:",omitempty"` // of a start
	Again          bool     `json:",omitempty"` // the pod was admitted before
	// Near is the affinity as bits, unless Any is set.
	Any  bool   `json:",omitempty"`
	Near uint64 `json:",omitempty"`
}

func (c call) String() string {
	s := fmt.Sprintf("%d: %s %s %s", c.Event, c.Op, c.Pod, c.Container)
	switch {
	case c.Op != opAllocate && c.Op != opAllocatePod:
	case c.Any:
		s += " anywhere"
	default:
		s += fmt.Sprintf(" near %v", scenario.Bits(c.Near))
	}
	return s
}

// hint is a topology hint without a kubelet type.
type hint struct {
	Nodes     uint64
	Preferred bool
}

func sortHints(hints []hint) {
	slices.SortFunc(hints, func(a, b hint) int {
		return cmp.Or(cmp.Compare(bits.OnesCount64(a.Nodes), bits.OnesCount64(b.Nodes)), cmp.Compare(a.Nodes, b.Nodes))
	})
}

// snapshot is what a manager's state says, in the kubelet's notation of sets.
type snapshot struct {
	Default    string
	Pods       map[string]string            `json:",omitempty"`
	Containers map[string]map[string]string `json:",omitempty"`
}

// outcome is what can be seen after a call.
type outcome struct {
	// Hints is nil without a preference.
	Hints *[]hint `json:",omitempty"`
	Err   string  `json:",omitempty"`
	State snapshot
	// Views is what the kubelet's other readers see, after some calls.
	Views map[string]string `json:",omitempty"`
	// Hang and Panic are upstream's.
	Hang  bool   `json:",omitempty"`
	Panic string `json:",omitempty"`
}

// key writes the outcome for comparison. Errors count by their kind, since
// texts differ on purpose.
func (o outcome) key() string {
	var b strings.Builder
	if o.Hints != nil {
		sortHints(*o.Hints)
		b.WriteString(hintsText(*o.Hints) + " ")
	}
	if o.Hang || o.Panic != "" {
		fmt.Fprintf(&b, "hang=%t panic=%q ", o.Hang, o.Panic)
	}
	if o.Err != "" {
		fmt.Fprintf(&b, "refused(%s) ", refusalKind(o.Err))
	}
	b.WriteString(o.State.String())
	for _, name := range sortedKeys(o.Views) {
		fmt.Fprintf(&b, " %s=%s", name, o.Views[name])
	}
	return b.String()
}

func hintsText(hints []hint) string {
	var b strings.Builder
	b.WriteString("hints[")
	for _, h := range hints {
		fmt.Fprintf(&b, " %v", scenario.Bits(h.Nodes))
		if h.Preferred {
			b.WriteByte('!')
		}
	}
	return b.String() + " ]"
}

func (s snapshot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "default=%s", s.Default)
	for _, pod := range sortedKeys(s.Pods) {
		fmt.Fprintf(&b, " %s=%s", pod, s.Pods[pod])
	}
	for _, pod := range sortedKeys(s.Containers) {
		for _, name := range sortedKeys(s.Containers[pod]) {
			fmt.Fprintf(&b, " %s/%s=%s", pod, name, s.Containers[pod][name])
		}
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Kinds of refusals.
const (
	notMultiple = "SMT, not a multiple"
	fewCores    = "SMT, too few cores"
	notEnough   = "not enough CPUs"
	poolEmpty   = "the node shared pool would be empty"
	podPool     = "empty pod shared pool"
	initPool    = "empty pod pool for init containers"
	overBudget  = "slices exceed the budget"

	socketsShare = "sockets share NUMA nodes"
)

// refusalKind is the kind of an error of either side.
func refusalKind(text string) string {
	for _, kind := range []struct{ words, kind string }{
		{"not multiple cpus per core", notMultiple},
		{"not enough free physical CPUs", fewCores},
		{"the node shared pool would be empty", poolEmpty},
		{"strict-cpu-reservation leaves no CPU", poolEmpty},
		{"Align by socket is not compatible with hardware", socketsShare},
		{"not enough cpus available to satisfy request", notEnough},
		{"sum of exclusive container cpu requests equals pod budget", podPool},
		{"has shared init containers but no", initPool},
		{"requests exceed the pod budget", overBudget},
	} {
		if strings.Contains(text, kind.words) {
			return kind.kind
		}
	}
	return text
}

func parseSet(text string) cpuset.CPUSet {
	set, err := cpuset.Parse(text)
	if err != nil {
		panic(err)
	}
	return set
}

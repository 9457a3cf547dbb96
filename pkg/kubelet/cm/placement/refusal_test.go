// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"reflect"
	"testing"

	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
)

// A command line gets from Admit what the one line in the pod's status is made
// of, and can print it as it likes.
func TestRefusalIsAValue(t *testing.T) {
	policy, err := NewPolicy(SingleNUMANode, numa.SetOf(0, 1, 2), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &script{policy: policy, book: book{}}
	cpu := &fake{script: s, name: "cpu", hints: map[string][]numa.Resource{"pod": {{Name: "cpu", Hints: []numa.Hint{{Nodes: numa.SetOf(0, 1)}}}}}}
	supply := []numa.Supply{{Node: 0, Free: 4, Allocatable: 10, Reserved: 2}, {Node: 1, Free: 3, Allocatable: 12}}
	demand := numa.Demand{Resource: "cpu", Unit: "CPUs", Asked: 6, Nodes: supply}

	err = Admit(Request{PodUID: "uid", Containers: []string{"app"}}, ScopePod, policy, []Provider{reporter{cpu, numa.Report{Demands: []numa.Demand{demand}}}}, s.book)
	var refusal *AffinityRefusal
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v", err)
	}
	demand.Nodes = append(supply, numa.Supply{Node: 2}) // the machine has it, without CPUs
	want := &AffinityRefusal{
		Scope: ScopePod, Strictness: SingleNUMANode, Nodes: numa.SetOf(0, 1, 2), Containers: 1,
		// Nothing is left of the hints; all nodes stand for that.
		Affinity:   numa.Hint{Any: true},
		Objections: []numa.Objection{{Resource: "cpu", Reason: numa.Spread, SingleNode: true}},
		Demands:    []numa.Demand{demand},
		Help:       []string{"freeing 2 CPUs on NUMA node 0", "asking for at most 4 CPUs", "policy best-effort"},
	}
	if !reflect.DeepEqual(refusal, want) {
		t.Errorf("got  %+v\nwant %+v", refusal, want)
	}
	if nodes, ok := numa.Fit(refusal.Demands); !ok || nodes != numa.SetOf(0) && nodes != numa.SetOf(1) {
		t.Errorf("fits {%s} on an idle machine", nodes)
	}
}

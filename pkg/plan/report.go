// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podslice/podslice/pkg/kubelet/cm/cpuplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/memplan"
	"github.com/podslice/podslice/pkg/kubelet/cm/numa"
	"github.com/podslice/podslice/pkg/kubelet/cm/placement"
	"github.com/podslice/podslice/pkg/kubelet/cm/podplan"
	"github.com/podslice/podslice/pkg/workload"
)

// Report is a plan as it is shown. Sets of CPUs and NUMA nodes are lists as the
// kernel writes them, memory is bytes.
type Report struct {
	Machine string       `json:"machine"`
	Config  ConfigReport `json:"config"`
	Pods    []PodReport  `json:"pods"`
	// Recorded are pods of the state files of which no manifest was given.
	Recorded []RecordedPod `json:"recorded,omitempty"`
	Left     Left          `json:"left"`
}

// ConfigReport is what of the kubelet's configuration decides.
type ConfigReport struct {
	CPUManagerPolicy         string `json:"cpuManagerPolicy"`
	MemoryManagerPolicy      string `json:"memoryManagerPolicy"`
	TopologyManagerPolicy    string `json:"topologyManagerPolicy"`
	TopologyManagerScope     string `json:"topologyManagerScope"`
	PodLevelResources        bool   `json:"podLevelResources"`
	PodLevelResourceManagers bool   `json:"podLevelResourceManagers"`
	ReservedCPUs             string `json:"reservedCPUs,omitempty"`
}

// PodReport is one pod: the verdict and, if it is admitted, what it has.
type PodReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is empty if the manifest has none.
	UID       string          `json:"uid,omitempty"`
	Source    workload.Source `json:"source"`
	QOSClass  v1.PodQOSClass  `json:"qosClass"`
	Admitted  bool            `json:"admitted"`
	Reason    string          `json:"reason,omitempty"`
	Message   string          `json:"message,omitempty"`
	Defaulted []string        `json:"defaulted,omitempty"`
	// Unchecked are resources of which the plan does not know what the node has.
	Unchecked  []string          `json:"unchecked,omitempty"`
	CPUs       string            `json:"cpus,omitempty"`
	Memory     []BlockReport     `json:"memory,omitempty"`
	CPUMax     string            `json:"cpuMax,omitempty"`
	Containers []ContainerReport `json:"containers,omitempty"`
	Explain    []StepReport      `json:"explain,omitempty"`
	// AtFault is set for a pod that is refused for what it is, on any node.
	AtFault bool `json:"-"`
	// Given is what the pod has, as sets; for pictures.
	Given Given `json:"-"`
}

// ContainerReport is one container. CPUMax is the file cpu.max of its cgroup.
type ContainerReport struct {
	Name            string            `json:"name"`
	Kind            string            `json:"kind"`
	CPUIsolation    podplan.Isolation `json:"cpuIsolation"`
	MemoryIsolation podplan.Isolation `json:"memoryIsolation"`
	CPUs            string            `json:"cpus"`
	// MemoryNodes is empty for memory that may be anywhere.
	MemoryNodes string           `json:"memoryNodes"`
	Memory      []BlockReport    `json:"memory,omitempty"`
	CPUMax      string           `json:"cpuMax"`
	Aligned     *AlignmentReport `json:"aligned,omitempty"`
	Notes       []string         `json:"notes,omitempty"`
}

// AlignmentReport is not there for a container in the node shared pool; LLC is null
// where the machine does not tell its caches.
type AlignmentReport struct {
	SMT  bool  `json:"smt"`
	LLC  *bool `json:"llc"`
	NUMA bool  `json:"numa"`
}

// BlockReport is memory on NUMA nodes.
type BlockReport struct {
	Resource  string `json:"resource"`
	Bytes     uint64 `json:"bytes"`
	NUMANodes string `json:"numaNodes"`
}

// StepReport is one decision about an affinity.
type StepReport struct {
	// Container is empty for the pod as a whole.
	Container string           `json:"container,omitempty"`
	Resources []ResourceReport `json:"resources"`
	Merged    HintReport       `json:"merged"`
	Admitted  bool             `json:"admitted"`
	RunnerUp  *HintReport      `json:"runnerUp,omitempty"`
}

// ResourceReport are the hints of a resource, the best first. More is how many are
// left out.
type ResourceReport struct {
	Resource string       `json:"resource"`
	Hints    []HintReport `json:"hints"`
	More     int          `json:"more,omitempty"`
}

// HintReport is a hint: NUMA nodes, or "any".
type HintReport struct {
	NUMANodes string `json:"numaNodes"`
	Preferred bool   `json:"preferred"`
}

// RecordedPod is what the state files have of a pod.
type RecordedPod struct {
	UID    string        `json:"uid"`
	CPUs   string        `json:"cpus,omitempty"`
	Memory []BlockReport `json:"memory,omitempty"`
}

// Left is what is left on the node.
type Left struct {
	NodeSharedPool string     `json:"nodeSharedPool"`
	NUMANodes      []NodeLeft `json:"numaNodes"`
	// Requests are what all pods request of what the node has to allocate.
	Requests []Requested `json:"requests"`
}

// NodeLeft is one NUMA node. FreeCPUs are those that containers can still get for
// themselves, of so many CPUs.
type NodeLeft struct {
	ID              int    `json:"id"`
	FreeCPUs        string `json:"freeCPUs"`
	AllocatableCPUs int    `json:"allocatableCPUs"`
	// FreeCount is how many FreeCPUs are.
	FreeCount int          `json:"-"`
	Memory    []MemoryLeft `json:"memory,omitempty"`
}

// MemoryLeft is one resource of a NUMA node.
type MemoryLeft struct {
	Resource    string `json:"resource"`
	Free        uint64 `json:"free"`
	Allocatable uint64 `json:"allocatable"`
	Reserved    uint64 `json:"reserved"`
}

// Requested is a resource of the node. Unit is "millicpu" for thousandths of a CPU,
// "byte" or "pod".
type Requested struct {
	Resource    string `json:"resource"`
	Unit        string `json:"unit"`
	Requested   int64  `json:"requested"`
	Allocatable int64  `json:"allocatable"`
}

// Refused is how many pods were refused.
func (r Report) Refused() int {
	refused := 0
	for _, p := range r.Pods {
		if !p.Admitted {
			refused++
		}
	}
	return refused
}

// Decided is a pod with what the kubelet says to it.
type Decided struct {
	workload.Pod
	Verdict
}

// AdmitAll admits one pod after the other, and calls at before each of them with its
// index and how many there are. It returns the node as it is after all of it.
func (n Node) AdmitAll(pods []workload.Pod, at func(i, of int)) (Node, []Decided) {
	decided := make([]Decided, 0, len(pods))
	for i, p := range pods {
		at(i, len(pods))
		// The node is as it was when the replica before this one was refused.
		if i > 0 && !decided[i-1].Admitted && p.ReplicaOf(pods[i-1]) {
			decided = append(decided, Decided{p, decided[i-1].Verdict})
			continue
		}
		next, verdict := n.Admit(p.Pod)
		n = next
		decided = append(decided, Decided{p, verdict})
	}
	return n, decided
}

// Report shows what was decided, on the node as it is after all of it.
func (n Node) Report(decided []Decided) Report {
	r := Report{Machine: n.Machine.Name, Config: n.configReport(), Pods: []PodReport{}, Left: n.left()}
	given := map[string]bool{}
	for _, d := range decided {
		given[string(d.UID)] = true
		r.Pods = append(r.Pods, n.podReport(d))
	}
	for _, uid := range slices.Sorted(maps.Keys(n.running)) {
		if !given[uid] {
			r.Recorded = append(r.Recorded, RecordedPod{
				UID: uid, CPUs: n.cpus.Record(uid).CPUs().String(), Memory: blockReports(slices.Collect(n.memory.Records().Pod(uid).Charges())),
			})
		}
	}
	return r
}

func (n Node) configReport() ConfigReport {
	c := ConfigReport{
		CPUManagerPolicy: cpuplan.PolicyNone, MemoryManagerPolicy: memplan.PolicyNone,
		TopologyManagerPolicy: string(n.Policy.Strictness()), TopologyManagerScope: string(n.Scope),
		PodLevelResources: n.PodLevelResources, PodLevelResourceManagers: n.PodLevelManagers,
	}
	if n.CPUs != nil {
		c.CPUManagerPolicy, c.ReservedCPUs = cpuplan.PolicyStatic, n.CPUs.Reserved().String()
	}
	if n.StaticMemory {
		c.MemoryManagerPolicy = memplan.PolicyStatic
	}
	return c
}

func (n Node) podReport(d Decided) PodReport {
	p := PodReport{
		Namespace: d.Namespace, Name: d.Name, Source: d.From, QOSClass: QOSClass(d.Pod.Pod, n.PodLevelResources),
		Admitted: d.Admitted, Reason: d.Reason, Message: d.Message, Defaulted: d.Defaulted, Unchecked: Unchecked(d.Pod.Pod),
	}
	if !d.MadeUID {
		p.UID = string(d.UID)
	}
	for _, s := range d.Steps {
		p.Explain = append(p.Explain, s.report())
	}
	var refusal *placement.AffinityRefusal
	p.AtFault = errors.As(d.Refusal, &refusal) && refusal.Cause != ""
	if !d.Admitted {
		return p
	}
	given := n.Given(d.Pod.Pod)
	p.Given = given
	p.CPUs, p.Memory, p.CPUMax = given.CPUs.String(), blockReports(given.Memory), given.Quota.String()
	for _, c := range given.Containers {
		one := ContainerReport{
			Name: c.Name, Kind: c.Kind.String(), CPUIsolation: c.CPUIsolation, MemoryIsolation: c.MemoryIsolation,
			CPUs: c.CPUs.String(), MemoryNodes: c.Nodes.String(), Memory: blockReports(c.Memory), CPUMax: c.Quota.String(), Notes: c.Notes,
		}
		if c.Aligned.Applies {
			one.Aligned = &AlignmentReport{SMT: c.Aligned.SMT, NUMA: c.Aligned.NUMA}
			if c.Aligned.Caches {
				one.Aligned.LLC = &c.Aligned.LLC
			}
		}
		p.Containers = append(p.Containers, one)
	}
	return p
}

// String writes the quota as the kernel does in cpu.max.
func (q Quota) String() string {
	if q.Micros == 0 {
		return fmt.Sprintf("max %d", q.Period)
	}
	return fmt.Sprintf("%d %d", q.Micros, q.Period)
}

func blockReports(blocks []memplan.Block) (list []BlockReport) {
	for _, b := range blocks {
		list = append(list, BlockReport{b.Resource, b.Size, b.Nodes.String()})
	}
	return list
}

// shownHints is how many hints of a resource are shown: there can be thousands.
const shownHints = 64

func (s Step) report() StepReport {
	r := StepReport{Container: s.Container, Resources: []ResourceReport{}, Merged: hintReport(s.Merged), Admitted: s.Admit}
	if s.Next {
		next := hintReport(s.RunnerUp)
		r.RunnerUp = &next
	}
	for _, resource := range s.Resources {
		one := ResourceReport{Resource: resource.Name, Hints: []HintReport{}}
		hints := slices.Clone(resource.Hints)
		if resource.NoPreference {
			hints = []numa.Hint{{Any: true, Preferred: true}}
		}
		slices.SortStableFunc(hints, func(a, b numa.Hint) int {
			if a.Preferred != b.Preferred {
				return cmp.Compare(position(b.Preferred), position(a.Preferred))
			}
			return cmp.Compare(position(b.Nodes.Narrower(a.Nodes)), position(a.Nodes.Narrower(b.Nodes)))
		})
		for i, h := range hints {
			if i == shownHints {
				one.More = len(hints) - i
				break
			}
			one.Hints = append(one.Hints, hintReport(h))
		}
		r.Resources = append(r.Resources, one)
	}
	return r
}

func position(last bool) int {
	if last {
		return 1
	}
	return 0
}

func hintReport(h numa.Hint) HintReport {
	if h.Any {
		return HintReport{"any", h.Preferred}
	}
	return HintReport{h.Nodes.String(), h.Preferred}
}

func (n Node) left() Left {
	left := Left{NodeSharedPool: n.SharedCPUs().String(), NUMANodes: []NodeLeft{}}
	memory := map[int][]MemoryLeft{}
	for state := range n.memory.Nodes() {
		for _, r := range state.Resources {
			memory[state.ID] = append(memory[state.ID], MemoryLeft{r.Name, r.Free, r.Allocatable, r.Capacity.Reserved})
		}
	}
	on := map[int][]int{}
	for _, c := range n.Machine.CPUs {
		on[c.Node] = append(on[c.Node], c.ID)
	}
	for _, node := range n.Machine.Nodes {
		one := NodeLeft{ID: node.ID, Memory: memory[node.ID]}
		if n.CPUs != nil {
			cpus := cpuplan.NewSet(on[node.ID]...)
			free := n.CPUs.Free(n.cpus).Intersection(cpus)
			one.FreeCPUs, one.FreeCount = free.String(), free.Size()
			one.AllocatableCPUs = n.CPUs.Allocatable().Intersection(cpus).Size()
		}
		left.NUMANodes = append(left.NUMANodes, one)
	}
	has, used := n.Allocatable, n.requested
	left.Requests = []Requested{{"cpu", "millicpu", used.MilliCPU, has.MilliCPU}, {"memory", "byte", used.Memory, has.Memory}}
	for _, name := range slices.Sorted(maps.Keys(has.Scalars)) {
		left.Requests = append(left.Requests, Requested{name, "byte", used.Scalars[name], has.Scalars[name]})
	}
	left.Requests = append(left.Requests, Requested{"pods", "pod", used.Pods, has.Pods})
	return left
}

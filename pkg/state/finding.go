// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"strings"
)

// Rule names what a finding is about. Meanings explains each.
type Rule string

// The rules.
const (
	Unreadable     Rule = "unreadable"
	BadChecksum    Rule = "checksum"
	OldVersion     Rule = "old-version"
	NoPolicy       Rule = "no-policy"
	BadEntry       Rule = "bad-entry"
	PartsDiffer    Rule = "parts-differ"
	NoCPUs         Rule = "no-cpus"
	Overlap        Rule = "overlap"
	SharedAssigned Rule = "shared-and-assigned"
	LostCPUs       Rule = "lost-cpus"
	OutsidePod     Rule = "outside-pod"
	StrayBaseline  Rule = "stray-baseline"
	MissingCPUs    Rule = "missing-cpus"
	MissingNode    Rule = "missing-node"
	BadTable       Rule = "table"
	MachineState   Rule = "machine-state"
	Overcommitted  Rule = "overcommitted"
	OneFileOnly    Rule = "one-file-only"
	ConfigPolicy   Rule = "config-policy"
	ConfigReserved Rule = "config-reserved"
	ConfigGate     Rule = "config-gate"
	Refused        Rule = "refused"
)

// Meanings tells, in the order in which they are documented, what each rule
// means for a node.
var Meanings = []struct {
	Rule    Rule
	Meaning string
}{
	{Unreadable, "a part of the file is no JSON of a known version; nothing can be taken from it"},
	{BadChecksum, "the part was damaged or edited by hand; the kubelet that reads this part does not start"},
	{OldVersion, "version 1 of the CPU manager's file has container IDs in the place of pods; upstream's kubelets up to 1.36 read it, newer ones do not; podslice's kubelet does"},
	{NoPolicy, "the part does not say which policy wrote it, or names one that there is not; every kubelet refuses it"},
	{BadEntry, "an entry that cannot be: no list of CPUs, a NUMA node out of range, a resource twice"},
	{PartsDiffer, "older and newer kubelets read different contents"},
	{NoCPUs, "a container without CPUs would run on those of all others; a shared pool without CPUs starts nothing"},
	{Overlap, "two pods count on the same CPUs for themselves"},
	{SharedAssigned, "containers of the node shared pool run on CPUs of a pod; upstream's kubelet does not start"},
	{LostCPUs, "CPUs of the machine are neither in the node shared pool nor a pod's; upstream's kubelet does not start"},
	{OutsidePod, "a container has CPUs, NUMA nodes or an amount of memory that its pod as a whole does not have: a crash while upstream's kubelet wrote"},
	{StrayBaseline, "a baseline of a container that has no CPUs"},
	{MissingCPUs, "CPUs that the machine does not have (any more)"},
	{MissingNode, "memory on a NUMA node, or of a kind, that the machine does not have (any more)"},
	{BadTable, "the numbers of a NUMA node contradict each other or the machine"},
	{MachineState, "what the NUMA nodes have given out is not what the pods have; upstream's kubelet does not start"},
	{Overcommitted, "pods were given more memory than there is now; they keep it, and nothing is added"},
	{OneFileOnly, "the pod has CPUs but no memory on record, or not as a whole, though both managers record: a crash between the two writes; when the pod is admitted again, podslice completes it, or places the pod anew if it has not started"},
	{ConfigPolicy, "the kubelet is to run with another policy than that which wrote the file; upstream's does not start, podslice takes the content over"},
	{ConfigReserved, "the reservation of the configuration is not that of the file; running pods keep what they have, upstream's kubelet does not start"},
	{ConfigGate, "pods are on record as a whole, but the gate PodLevelResourceManagers is off: podslice keeps them until they end, upstream's kubelet forgets them"},
	{Refused, "the kubelet asked about does not start on this file"},
}

// Meaning is what the rule means for a node.
func (r Rule) Meaning() string {
	for _, m := range Meanings {
		if m.Rule == r {
			return m.Meaning
		}
	}
	return ""
}

// Finding is one thing that is wrong, or a warning about one that may be.
type Finding struct {
	Rule    Rule   `json:"rule"`
	Warning bool   `json:"warning,omitempty"`
	File    string `json:"file"`
	// Part is "inline" or "data" where a file has two and one of them is meant.
	Part      string `json:"part,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Text      string `json:"text"`
}

// String is the finding in one line.
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Part != "" {
		fmt.Fprintf(&b, ", %s part", f.Part)
	}
	if f.Pod != "" {
		fmt.Fprintf(&b, ", pod %q", f.Pod)
	}
	if f.Container != "" {
		fmt.Fprintf(&b, ", container %q", f.Container)
	}
	return b.String() + ": " + f.Text
}

// findings collects what is found in one part of a file.
type findings struct {
	file, part string
	list       []Finding
}

func (f *findings) add(rule Rule, pod, container, format string, args ...any) {
	f.list = append(f.list, Finding{Rule: rule, File: f.file, Part: f.part, Pod: pod, Container: container, Text: fmt.Sprintf(format, args...)})
}

func (f *findings) warn(rule Rule, pod, container, format string, args ...any) {
	f.add(rule, pod, container, format, args...)
	f.list[len(f.list)-1].Warning = true
}

// Wrong counts the findings that are no warnings.
func Wrong(list []Finding) (n int) {
	for _, f := range list {
		if !f.Warning {
			n++
		}
	}
	return n
}

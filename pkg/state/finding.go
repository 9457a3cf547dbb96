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
	NewerVersion   Rule = "newer-version"
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
	MachineChanged Rule = "machine-changed"
	MachineState   Rule = "machine-state"
	Overcommitted  Rule = "overcommitted"
	OneFileOnly    Rule = "one-file-only"
	ConfigPolicy   Rule = "config-policy"
	ConfigReserved Rule = "config-reserved"
	ConfigGate     Rule = "config-gate"
	Refused        Rule = "refused"
)

// Severity is how much a finding matters.
type Severity string

const (
	// Harm is of a file that contradicts itself or cannot be read, of what pods
	// do not keep when podslice's kubelet starts, and of a kubelet asked about
	// that does not start.
	Harm Severity = "wrong"
	// Note is of a file that podslice's kubelet goes on with as it is, without
	// loss for any pod, although something has changed since it was written.
	Note Severity = "note"
)

// Meanings tells, in the order in which they are documented, how much each rule
// matters and what it means for a node. ConfigPolicy is Harm where pods would lose
// CPUs.
var Meanings = []struct {
	Rule     Rule
	Severity Severity
	Meaning  string
}{
	{Unreadable, Harm, "a part of the file is no JSON of a known version; nothing can be taken from it"},
	{BadChecksum, Harm, "the part was damaged or edited by hand; upstream's kubelet does not start if this is the part that it reads, podslice's goes by the other"},
	{OldVersion, Note, "version 1 of the CPU manager's file has container IDs in the place of pods; upstream's kubelets up to 1.36 read it, newer ones do not; podslice's kubelet does, and learns from the runtime whose they are"},
	{NewerVersion, Harm, "it has what podslice does not know, of a newer kubelet; podslice's kubelet keeps a copy of the file and goes on without that"},
	{NoPolicy, Harm, "the part does not say which policy wrote it, or names one that there is not; upstream's kubelet does not start"},
	{BadEntry, Harm, "an entry that cannot be: no list of CPUs, a NUMA node out of range, a resource twice; podslice's kubelet leaves it out"},
	{PartsDiffer, Harm, "older and newer kubelets read different contents"},
	{NoCPUs, Harm, "a container without CPUs would run on those of all others; a shared pool without CPUs starts nothing"},
	{Overlap, Harm, "two pods count on the same CPUs for themselves"},
	{SharedAssigned, Harm, "containers of the node shared pool run on CPUs of a pod; upstream's kubelet does not start"},
	{LostCPUs, Harm, "CPUs of the machine are neither in the node shared pool nor a pod's; upstream's kubelet does not start"},
	{OutsidePod, Harm, "a container has CPUs, NUMA nodes or an amount of memory that its pod as a whole does not have: a crash while upstream's kubelet wrote"},
	{StrayBaseline, Note, "a baseline of a container that has no CPUs; nothing goes by it"},
	{MissingCPUs, Harm, "CPUs that the machine does not have (any more); podslice's kubelet takes them out, upstream's does not start"},
	{MissingNode, Harm, "memory on a NUMA node, or of a kind, that the machine does not have (any more); podslice's kubelet gives the pod other memory, upstream's does not start"},
	{BadTable, Harm, "the numbers of a NUMA node contradict each other"},
	{MachineChanged, Note, "the machine has other NUMA nodes, or other totals on one, than when the file was written: a few pages differ from boot to boot; podslice goes by the machine, upstream's kubelet does not start"},
	{MachineState, Harm, "what the NUMA nodes have given out is not what the pods have; upstream's kubelet does not start"},
	{Overcommitted, Note, "pods were given more memory than there is now; they keep it, and nothing is added"},
	{OneFileOnly, Note, "the pod has CPUs but no memory on record, or not as a whole, though both managers record: a crash between the two writes; when the pod is admitted again, podslice completes it, or places the pod anew if it has not started"},
	{ConfigPolicy, Note, "the kubelet is to run with another policy than that which wrote the file; upstream's does not start; podslice takes the content over, and pods keep what they have, but for CPUs under the policy none"},
	{ConfigReserved, Note, "the reservation of the configuration is not that of the file; running pods keep what they have, upstream's kubelet does not start"},
	{ConfigGate, Note, "pods are on record as a whole, but the gate PodLevelResourceManagers is off: podslice keeps them until they end, upstream's kubelet forgets them"},
	{Refused, Harm, "the kubelet asked about does not start on this file"},
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

func (r Rule) severity() Severity {
	for _, m := range Meanings {
		if m.Rule == r {
			return m.Severity
		}
	}
	return Harm
}

// Finding is one thing that is found.
type Finding struct {
	Rule     Rule     `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	// Part is "inline" or "data" where a file has two and one of them is meant.
	Part      string `json:"part,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Text      string `json:"text"`
	// alone is set if the file has no other part that is sound.
	alone bool
}

// Meaning is what the finding means for a node: that of its rule, but for a file that
// has no other part to go by.
func (f Finding) Meaning() string {
	if !f.alone {
		return f.Rule.Meaning()
	}
	switch f.Rule {
	case BadChecksum:
		return "it was damaged or edited by hand, and no part of the file is sound: upstream's kubelet does not start, podslice's keeps a copy of the file and believes nothing in it"
	case Unreadable:
		return "it is no JSON of a known version, and no part of the file is sound: upstream's kubelet does not start, podslice's keeps a copy of the file and begins anew"
	}
	return f.Rule.Meaning()
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

// add adds a finding with the severity of its rule.
func (f *findings) add(rule Rule, pod, container, format string, args ...any) {
	f.list = append(f.list, Finding{Rule: rule, Severity: rule.severity(), File: f.file, Part: f.part, Pod: pod, Container: container, Text: fmt.Sprintf(format, args...)})
}

// Wrong counts the findings that are no notes.
func Wrong(list []Finding) (n int) {
	for _, f := range list {
		if f.Severity == Harm {
			n++
		}
	}
	return n
}

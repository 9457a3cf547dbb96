// SPDX-License-Identifier: Apache-2.0

// Package state keeps what the CPU manager has given out: in memory for its
// readers and in a state file for the next start of the kubelet.
//
// It works by whole changes. A Store replaces the file with a complete new
// content first and publishes that content to its readers afterwards, so that
// a reader never sees what a crash could take back, and a write that fails
// changes nothing.
package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/utils/cpuset"
)

// ContainerCPUAssignments holds CPUs by pod UID and container name.
type ContainerCPUAssignments map[string]map[string]cpuset.CPUSet

// Clone returns a copy.
func (a ContainerCPUAssignments) Clone() ContainerCPUAssignments {
	clone := make(ContainerCPUAssignments, len(a))
	for pod, containers := range a {
		clone[pod] = maps.Clone(containers)
	}
	return clone
}

// String lists pods and containers in alphabetical order, for logs.
func (a ContainerCPUAssignments) String() string {
	pods := make([]string, 0, len(a))
	for _, pod := range slices.Sorted(maps.Keys(a)) {
		containers := make([]string, 0, len(a[pod]))
		for _, name := range slices.Sorted(maps.Keys(a[pod])) {
			containers = append(containers, fmt.Sprintf("%q:%q", name, a[pod][name].String()))
		}
		pods = append(pods, fmt.Sprintf("%q:{%s}", pod, strings.Join(containers, ",")))
	}
	return "{" + strings.Join(pods, ",") + "}"
}

// PodCPUAssignments holds the CPUs of pods with a budget, by pod UID.
type PodCPUAssignments map[string]PodEntry

// Clone returns a copy.
func (a PodCPUAssignments) Clone() PodCPUAssignments {
	if a == nil {
		return PodCPUAssignments{}
	}
	return maps.Clone(a)
}

// PodEntry is the CPUs of one pod's budget. In JSON the set is written in the
// kernel's list format.
type PodEntry struct {
	CPUSet cpuset.CPUSet `json:"cpuSet,omitempty"`
}

// podEntryText is PodEntry as it is written.
type podEntryText struct {
	CPUSet string `json:"cpuSet,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (e PodEntry) MarshalJSON() ([]byte, error) {
	return json.Marshal(podEntryText{e.CPUSet.String()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *PodEntry) UnmarshalJSON(data []byte) (err error) {
	var text podEntryText
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if e.CPUSet, err = parse(text.CPUSet); err != nil {
		return fmt.Errorf("cannot read the CPU set %q of a pod: %w", text.CPUSet, err)
	}
	return nil
}

// ContainerCPUBaseline is the CPUs that a container was admitted with. Nothing
// resizes exclusive CPUs, so they are the CPUs that it has.
type ContainerCPUBaseline struct {
	Baseline cpuset.CPUSet
}

// ContainerCPUBaselines holds baselines by pod UID and container name.
type ContainerCPUBaselines map[string]map[string]ContainerCPUBaseline

// Reader answers from one published content. What it returns is the caller's.
type Reader interface {
	// GetCPUSet is the CPUs of a container, and whether it has any of its own
	// or of its pod's.
	GetCPUSet(podUID string, containerName string) (cpuset.CPUSet, bool)
	// GetDefaultCPUSet is the node shared pool.
	GetDefaultCPUSet() cpuset.CPUSet
	// GetCPUSetOrDefault is the CPUs that a container runs on.
	GetCPUSetOrDefault(podUID string, containerName string) cpuset.CPUSet
	GetCPUAssignments() ContainerCPUAssignments
	// GetPodCPUSet is the CPUs of a pod's budget.
	GetPodCPUSet(podUID string) (cpuset.CPUSet, bool)
	GetPodCPUAssignments() PodCPUAssignments
	// GetCPUBaselines and GetBaselineCPUSet are empty unless the gate
	// InPlacePodVerticalScalingExclusiveCPUs is on.
	GetCPUBaselines() ContainerCPUBaselines
	GetBaselineCPUSet(podUID string, containerName string) (cpuset.CPUSet, bool)
}

// Content is everything that the CPU manager has given out. It is not changed
// once it is in a Store.
type Content struct {
	// Default is the node shared pool. It is written for others to read; what
	// the manager goes by is derived from the assignments.
	Default     cpuset.CPUSet
	Assignments ContainerCPUAssignments
	Pods        PodCPUAssignments
	// HasBaselines says whether baselines are recorded.
	HasBaselines bool
}

var _ Reader = (*Content)(nil)

// GetCPUSet implements Reader.
func (c *Content) GetCPUSet(podUID string, containerName string) (cpuset.CPUSet, bool) {
	cpus, ok := c.Assignments[podUID][containerName]
	return cpus, ok
}

// GetDefaultCPUSet implements Reader.
func (c *Content) GetDefaultCPUSet() cpuset.CPUSet { return c.Default }

// GetCPUSetOrDefault implements Reader.
func (c *Content) GetCPUSetOrDefault(podUID string, containerName string) cpuset.CPUSet {
	if cpus, ok := c.GetCPUSet(podUID, containerName); ok {
		return cpus
	}
	return c.Default
}

// GetCPUAssignments implements Reader.
func (c *Content) GetCPUAssignments() ContainerCPUAssignments { return c.Assignments.Clone() }

// GetPodCPUSet implements Reader.
func (c *Content) GetPodCPUSet(podUID string) (cpuset.CPUSet, bool) {
	entry, ok := c.Pods[podUID]
	return entry.CPUSet, ok
}

// GetPodCPUAssignments implements Reader.
func (c *Content) GetPodCPUAssignments() PodCPUAssignments { return c.Pods.Clone() }

// GetCPUBaselines implements Reader.
func (c *Content) GetCPUBaselines() ContainerCPUBaselines {
	baselines := ContainerCPUBaselines{}
	if !c.HasBaselines {
		return baselines
	}
	for pod, containers := range c.Assignments {
		baselines[pod] = make(map[string]ContainerCPUBaseline, len(containers))
		for name, cpus := range containers {
			baselines[pod][name] = ContainerCPUBaseline{cpus}
		}
	}
	return baselines
}

// GetBaselineCPUSet implements Reader.
func (c *Content) GetBaselineCPUSet(podUID string, containerName string) (cpuset.CPUSet, bool) {
	if !c.HasBaselines {
		return cpuset.CPUSet{}, false
	}
	return c.GetCPUSet(podUID, containerName)
}

// SPDX-License-Identifier: Apache-2.0

package topologymanager

import "github.com/podslice/podslice/pkg/kubelet/cm/placement"

// ErrorTopologyAffinity is the reason of pods that could not be aligned.
const ErrorTopologyAffinity = placement.ReasonAffinity

// TopologyAffinityError is the refusal of a pod, or of one of its containers,
// whose resources have no acceptable affinity.
type TopologyAffinityError struct {
	facts string
}

// NewTopologyAffinityError returns the error without facts.
func NewTopologyAffinityError() *TopologyAffinityError { return &TopologyAffinityError{} }

func (e TopologyAffinityError) Error() string {
	return placement.WithFacts(placement.LocalitySentence, e.facts)
}

// Type is the reason in the pod's status.
func (e TopologyAffinityError) Type() string { return ErrorTopologyAffinity }

// PodLevelTopologyAffinityError is the same for a pod with pod-level resources.
type PodLevelTopologyAffinityError struct {
	sentence string
	facts    string
}

// NewPodLevelTopologyAffinityError returns an error with the given message in
// place of the usual sentence, if it is not empty.
func NewPodLevelTopologyAffinityError(message string) *PodLevelTopologyAffinityError {
	if message == "" {
		message = placement.LocalitySentence
	}
	return &PodLevelTopologyAffinityError{sentence: placement.PodLevelPrefix + message}
}

func (e *PodLevelTopologyAffinityError) Error() string {
	return placement.WithFacts(e.sentence, e.facts)
}

// Type is the reason in the pod's status.
func (e *PodLevelTopologyAffinityError) Type() string { return ErrorTopologyAffinity }

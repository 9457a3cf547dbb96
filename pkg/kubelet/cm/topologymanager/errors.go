// SPDX-License-Identifier: Apache-2.0

package topologymanager

// ErrorTopologyAffinity is the reason of pods that could not be aligned.
const ErrorTopologyAffinity = "TopologyAffinityError"

// These sentences are looked for in the status of rejected pods, so they stand
// first and as they are; facts follow.
const (
	localitySentence       = "Resources cannot be allocated with Topology locality"
	podLevelPrefix         = "Pod Scope "
	podLevelInPodScope     = "pod with pod-level resources failed admission under pod-scope topology manager"
	podLevelContainerScope = "pod with pod-level resources failed admission with a container-level topology manager"
)

// TopologyAffinityError is the refusal of a pod, or of one of its containers,
// whose resources have no acceptable affinity.
type TopologyAffinityError struct {
	facts string
}

// NewTopologyAffinityError returns the error without facts.
func NewTopologyAffinityError() *TopologyAffinityError { return &TopologyAffinityError{} }

func (e TopologyAffinityError) Error() string { return withFacts(localitySentence, e.facts) }

// Type is the reason in the pod's status.
func (e TopologyAffinityError) Type() string { return ErrorTopologyAffinity }

// PodLevelTopologyAffinityError is the same for a pod with pod-level resources.
type PodLevelTopologyAffinityError struct {
	message string
	facts   string
}

// NewPodLevelTopologyAffinityError returns an error with the given message in
// place of the usual sentence, if it is not empty.
func NewPodLevelTopologyAffinityError(message string) *PodLevelTopologyAffinityError {
	return &PodLevelTopologyAffinityError{message: message}
}

func (e *PodLevelTopologyAffinityError) Error() string {
	sentence := e.message
	if sentence == "" {
		sentence = localitySentence
	}
	return withFacts(podLevelPrefix+sentence, e.facts)
}

// Type is the reason in the pod's status.
func (e *PodLevelTopologyAffinityError) Type() string { return ErrorTopologyAffinity }

func withFacts(sentence, facts string) string {
	if facts == "" {
		return sentence
	}
	return sentence + ": " + facts
}

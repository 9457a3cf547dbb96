// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
)

// What stands in the status of a refused pod. Reasons and sentences are the
// kubelet's: tools and tests look for them.
const (
	ReasonAffinity   = "TopologyAffinityError"
	ReasonUnexpected = "UnexpectedAdmissionError"

	// LocalitySentence is that of pods without pod-level resources.
	LocalitySentence = "Resources cannot be allocated with Topology locality"
	// PodLevelPrefix is in front of the sentences of all others.
	PodLevelPrefix = "Pod Scope "

	podLevelInPodScope       = PodLevelPrefix + "pod with pod-level resources failed admission under pod-scope topology manager"
	podLevelInContainerScope = PodLevelPrefix + "pod with pod-level resources failed admission with a container-level topology manager"
)

// Sentence is the one that stands before the facts.
func (r *AffinityRefusal) Sentence() string {
	switch {
	case !r.PodLevel:
		return LocalitySentence
	case r.Scope == ScopePod:
		return podLevelInPodScope
	}
	return podLevelInContainerScope
}

// WithFacts adds the details of a refusal to its sentence.
func WithFacts(sentence, facts string) string {
	if facts == "" {
		return sentence
	}
	return sentence + ": " + facts
}

// Cause is the error that a refused pod is told: the provider's own words and type,
// with nothing around them, or what else Admit returned.
func Cause(err error) error {
	var provider *ProviderRefusal
	switch {
	case !errors.As(err, &provider):
		return err
	case provider.Commit:
		return fmt.Errorf("the allocation could not be recorded: %w", provider.Err)
	}
	return provider.Err
}

// Status is the reason and the message of a pod that Admit has refused. The errors
// of the core have their reason as Type; the others are not expected.
func Status(err error) (reason, message string) {
	var affinity *AffinityRefusal
	if errors.As(err, &affinity) {
		return ReasonAffinity, WithFacts(affinity.Sentence(), affinity.Details())
	}
	err = Cause(err)
	var typed interface {
		error
		Type() string
	}
	if errors.As(err, &typed) {
		return typed.Type(), typed.Error()
	}
	return ReasonUnexpected, fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)
}
